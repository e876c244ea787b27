//! The address at which metrics are served. A port alone is on the loopback address, which only this machine
//! can reach.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Reads an address to listen at.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:");
    let port = port.or_else(|| text.strip_prefix(':')).unwrap_or(text);
    // `parse` alone would accept a sign.
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(port) = port.parse().ok().filter(|_| is_number) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!(
            "invalid address '{text}': expected PORT or ADDRESS:PORT, such as 9464, 127.0.0.1:9464 or [::1]:9464"
        )
    })
}

/// Returns which hosts besides this machine can reach the address; `None` if none can.
pub fn open_to(address: SocketAddr) -> Option<&'static str> {
    // An IPv4 address may be written as an IPv6 address, and binds as an IPv4 address.
    match address.ip().to_canonical() {
        ip if ip.is_loopback() => None,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some("every host on that link"),
        IpAddr::V4(ip) if ip.is_link_local() => Some("every host on that link"),
        ip if ip.is_unspecified() => Some("every host that can reach this machine"),
        _ => Some("every host that can reach that address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_loopback() {
        for text in ["9464", ":9464", "localhost:9464", "127.0.0.1:9464"] {
            let address = parse(text).unwrap();
            assert_eq!(address.to_string(), "127.0.0.1:9464", "{text}");
            assert_eq!(open_to(address), None, "{text}");
        }
        let address = parse("[::1]:0").unwrap();
        assert_eq!(address.to_string(), "[::1]:0");
        assert_eq!(open_to(address), None);
    }

    #[test]
    fn what_is_open_to_others_is_told() {
        for (text, who) in [
            ("0.0.0.0:9464", "can reach this machine"),
            ("[::]:9464", "can reach this machine"),
            ("10.1.2.3:9464", "that address"),
            ("[2001:db8::1]:9464", "that address"),
            ("[::ffff:10.1.2.3]:9464", "that address"),
            ("[fe80::1]:9464", "that link"),
            ("169.254.1.1:9464", "that link"),
        ] {
            let address = parse(text).unwrap();
            let told = open_to(address).unwrap_or_default();
            assert!(told.ends_with(who), "{text}: {told}");
        }
        let mapped = parse("[::ffff:127.0.0.1]:9464").unwrap();
        assert_eq!(open_to(mapped), None);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            ":",
            "x",
            "65536",
            "+80",
            "-1",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "::1:9464",
            "[::1]",
            "example.org:9464",
            "http://127.0.0.1:9464",
            " 9464",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
