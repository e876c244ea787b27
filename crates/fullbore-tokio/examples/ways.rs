//! A proxy that moves bytes in one of several ways: `ways WAY LISTEN TO`. An address with a `/` is the path of a Unix
//! socket, any other a TCP address. It prints the address that it listens on. `fullbore bench services` measures it.

use std::error::Error;
use std::io::{self, Write};

use fullbore_tokio::{Duplex, Guarantee, Options};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_splice2::io::{AsyncReadFd, AsyncWriteFd, IsNotFile};

#[derive(Clone, Copy)]
enum Way {
    /// `tokio::io::copy_bidirectional`, with buffers of this size.
    Tokio(usize),
    Splice2,
    Fullbore(Guarantee),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, listen, to] = arguments.as_slice() else {
        return Err("usage: ways tokio-8k|tokio-256k|splice2|snapshot|reference LISTEN TO".into());
    };
    let way = match way.as_str() {
        "tokio-8k" => Way::Tokio(8 * 1024),
        "tokio-256k" => Way::Tokio(256 * 1024),
        "splice2" => Way::Splice2,
        "snapshot" => Way::Fullbore(Guarantee::Snapshot),
        "reference" => Way::Fullbore(Guarantee::Reference),
        _ => return Err(format!("no way '{way}'").into()),
    };
    let to = to.clone();
    if listen.contains('/') {
        let listener = UnixListener::bind(listen)?;
        listening(listen)?;
        loop {
            let (client, _) = listener.accept().await?;
            let to = to.clone();
            tokio::spawn(async move { relay(way, client, UnixStream::connect(to).await?).await });
        }
    }
    let listener = TcpListener::bind(listen).await?;
    // The 128 of `bind` are too few: the kernel drops what is more, and clients try again after 1, 3, 7 seconds.
    rustix::net::listen(&listener, 4096)?;
    listening(&listener.local_addr()?.to_string())?;
    loop {
        let (client, _) = listener.accept().await?;
        let to = to.clone();
        tokio::spawn(async move {
            let server = TcpStream::connect(to).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            relay(way, client, server).await
        });
    }
}

fn listening(address: &str) -> io::Result<()> {
    println!("{address}");
    io::stdout().flush()
}

async fn relay<Socket>(way: Way, mut client: Socket, mut server: Socket) -> io::Result<()>
where
    Socket: Duplex + AsyncRead + AsyncWrite + AsyncReadFd + AsyncWriteFd + IsNotFile + Unpin,
{
    match way {
        Way::Tokio(size) => {
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, size, size).await?;
        }
        Way::Splice2 => {
            tokio_splice2::copy_bidirectional(&mut client, &mut server).await?;
        }
        Way::Fullbore(guarantee) => {
            let options = Options::new().guarantee(guarantee);
            options
                .copy_bidirectional(&mut client, &mut server)
                .run()
                .await?;
        }
    }
    Ok(())
}
