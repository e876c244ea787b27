//! An sshd on the loopback, with keys and configuration of its own in a temporary directory, for the user of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::network::{free_port, is_listened_at};
use super::*;

/// A running sshd. The host `backup` of the program `ssh` in its directory is this machine.
pub struct Sshd {
    pub directory: tempfile::TempDir,
    server: Child,
}

impl Sshd {
    /// Starts an sshd; returns `None` and prints a message if that is not possible here.
    pub fn start(what: &str) -> Option<Self> {
        const SERVER: &str = "/usr/sbin/sshd";
        if !Path::new(SERVER).exists() || output_of(Command::new("ssh").arg("-V")).is_err() {
            skipped(&format!("{what}: sshd is not installed"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
            assert!(output_of(&mut keygen).unwrap().status.success());
        }
        // For its separation of privileges, where it is root.
        let _ = is_root().then(|| fs::create_dir_all("/run/sshd"));
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
            path("ssh_config")
        );
        fs::write(path("ssh"), script).unwrap();
        fs::set_permissions(path("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
        let (server, port) = (0..20).find_map(|_| {
            let port = free_port();
            let commands = Path::new(FULLBORE).parent().unwrap().display();
            let config = format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPidFile none\nSetEnv PATH={commands}:/usr/bin:/bin\n",
                path("host"),
                path("user.pub")
            );
            fs::write(path("sshd_config"), config).unwrap();
            let mut command = Command::new(SERVER);
            let log = fs::File::create(path("log")).unwrap();
            command.args(["-D", "-e", "-f", &path("sshd_config")]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let mut server = start(&mut command);
            let is_up = wait_for("sshd listens, or has ended", || {
                match server.try_wait().unwrap() {
                    Some(_) => Some(false),
                    None => is_listened_at(port, server.id()).then_some(true),
                }
            });
            is_up.then_some((server, port))
        })?;
        let client = format!(
            "Host backup\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\n\
             StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n",
            path("user")
        );
        fs::write(path("ssh_config"), client).unwrap();
        let sshd = Self { directory, server };
        let tried = finish(start(&mut sshd.with_ssh("ssh backup fullbore --version")));
        if !tried.status.success() {
            let log = fs::read_to_string(sshd.directory.path().join("log")).unwrap_or_default();
            skipped(&format!(
                "{what}: sshd lets nobody in here: {} {log}",
                said(&tried)
            ));
            return None;
        }
        Some(sshd)
    }

    /// Returns the PID of the server.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Returns bash with this line, in the directory, where `ssh` knows the host `backup` and `fullbore` is that of the
    /// tests.
    pub fn with_ssh(&self, line: &str) -> Command {
        let commands = Path::new(FULLBORE).parent().unwrap().display();
        let own = self.directory.path().display();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-c", line])
            .env("PATH", format!("{own}:{commands}:{path}"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        users::with_usual_signals(&mut command);
        command
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
