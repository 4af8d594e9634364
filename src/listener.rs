//! A place to listen: a TCP address, or a Unix socket that only this user can open.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;

use crate::config::Address;

/// Only the user that runs the server may connect: whoever connects may decide and approve.
const SOCKET_MODE: u32 = 0o600;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long a socket's owner, if there is one, may take to take a connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A place where connections arrive. Made by [`Listener::bind`], or from a listener that a test has bound.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP address.
    Tcp(TcpListener),
    /// On a socket in the file system, which goes with its listener.
    Unix(UnixListener, SocketFile),
}

/// The file of a socket; removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that another process's file of the same name is let be.
    identity: (u64, u64),
}

/// Why it is not possible to listen there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else does.
    #[error(
        "cannot listen on `{0}`: it is in use, perhaps by another assent; stop that one, or choose another place with `--listen`"
    )]
    InUse(Address),
    /// The path is a file of another kind, which is left alone.
    #[error("cannot listen on `{0}`: there is a file at that path, and it is no socket")]
    NoSocket(Address),
    /// The system says no.
    #[error("cannot listen on `{address}`: {error}")]
    Refused {
        /// Where.
        address: Address,
        /// Why.
        error: io::Error,
    },
}

impl Listener {
    /// Begins to listen. The socket that a dead process has left behind is replaced.
    ///
    /// # Errors
    /// When somebody listens there already, or the system says no.
    pub async fn bind(address: &Address) -> Result<Self, ListenError> {
        let bound = match address {
            Address::Tcp(tcp) => TcpListener::bind(tcp).await.map(Self::Tcp),
            Address::Unix(path) => {
                remove_stale(path).await.map_err(|found| match found {
                    Found::Alive => ListenError::InUse(address.clone()),
                    Found::NoSocket => ListenError::NoSocket(address.clone()),
                    Found::Unknown(error) => refused(address, error),
                })?;
                bind_unix(path)
            }
        };
        bound.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => ListenError::InUse(address.clone()),
            _ => refused(address, error),
        })
    }

    /// Where it listens, with the port that was chosen.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // What is left behind is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refused(address: &Address, error: io::Error) -> ListenError {
    ListenError::Refused {
        address: address.clone(),
        error,
    }
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path)?,
    };
    // Before it listens nobody can connect, so there is no moment at which others can.
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    Ok(Listener::Unix(socket.listen(BACKLOG)?, file))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// What stands at a path and is not to be removed.
enum Found {
    Alive,
    NoSocket,
    Unknown(io::Error),
}

async fn remove_stale(path: &Path) -> Result<(), Found> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(Found::NoSocket),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Found::Unknown(error)),
    }
    match timeout(PROBE_TIMEOUT, UnixStream::connect(path)).await {
        // Only this says that no process has it; a busy one answers otherwise.
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(Found::Unknown)
        }
        Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(Found::Unknown(error)),
        Ok(_) | Err(_) => Err(Found::Alive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn bind(path: &Path) -> Result<Listener, String> {
        let bound = Listener::bind(&Address::Unix(path.to_owned())).await;
        bound.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_socket_is_for_this_user_only_and_goes_with_its_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("assent.sock");
        let listener = bind(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_dead_processes_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("assent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _listener = bind(&path).await.unwrap();
        let refused = bind(&path).await.unwrap_err();
        assert!(refused.contains("it is in use"), "{refused}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn another_processes_socket_is_let_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("assent.sock");
        let listener = bind(&path).await.unwrap();
        // Held open, so that the inode is not used again.
        let moved = dir.path().join("moved.sock");
        fs::rename(&path, &moved).unwrap();
        let _other = bind(&path).await.unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_let_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "notes").unwrap();
        let refused = bind(&path).await.unwrap_err();
        assert!(refused.contains("it is no socket"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }

    #[tokio::test]
    async fn a_taken_port_is_in_use() {
        let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(&any).await.unwrap();
        let taken = listener.address().unwrap();
        let refused = Listener::bind(&taken).await.unwrap_err();
        assert!(matches!(refused, ListenError::InUse(address) if address == taken));
    }
}
