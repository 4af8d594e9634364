//! The file itself: its directory, its mode, and the lock that keeps other processes out.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use super::StoreError;

/// Only the user that runs the server reads and writes what is in there: arguments rest in plain text.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A file that this process alone may use, for as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    /// Where it really is.
    pub(super) path: PathBuf,
    /// Locked; the lock ends with it, also when the process is killed.
    _lock: File,
}

/// Makes the directory and the file if they are missing, tightens the file's mode and locks it.
pub(super) fn hold(path: &Path) -> Result<Held, StoreError> {
    let path = locate(path)?;
    let lock = lock(&path)?;
    create(&path).map_err(|error| unwritable("the file", &path, &error))?;
    Ok(Held { path, _lock: lock })
}

/// The real path, so that two names of one file have one lock.
fn locate(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::Unusable(format!(
            "`{}` names no file: give the store the path of a file",
            path.display()
        )));
    };
    if path.is_dir() {
        return Err(StoreError::Unusable(format!(
            "`{}` is a directory: give the store the path of a file",
            path.display()
        )));
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    let located = builder.create(directory).and_then(|()| {
        if path.try_exists()? {
            path.canonicalize()
        } else {
            Ok(directory.canonicalize()?.join(name))
        }
    });
    located.map_err(|error| unwritable("the directory", directory, &error))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let lock_path = beside(path, ".lock");
    let failed = |error: io::Error| unwritable("the lock file", &lock_path, &error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut lock = options.mode(FILE_MODE).open(&lock_path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is a courtesy; that it is held is what counts.
            let _unread = lock.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(StoreError::Unusable(format!(
                "`{}` is in use by {holder}: stop that one first, or give this one another file",
                path.display()
            )));
        }
    }
    write_pid(&mut lock).map_err(failed)?;
    Ok(lock)
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", process::id())
}

fn create(path: &Path) -> io::Result<()> {
    let is_new = !path.try_exists()?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(FILE_MODE).open(path)?;
    // SQLite gives the log and its index the mode of the file; those of a killed process are there.
    for path in [path, &beside(path, "-wal"), &beside(path, "-shm")] {
        if path.try_exists()? {
            fs::set_permissions(path, Permissions::from_mode(FILE_MODE))?;
        }
    }
    if let (true, Some(directory)) = (is_new, path.parent()) {
        // Else a power cut could take the name of the file, and all of it.
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn unwritable(what: &str, path: &Path, error: &dyn Display) -> StoreError {
    StoreError::Unusable(format!(
        "{what} `{}` cannot be created or written ({error}): give the store a path in a directory that this user can write",
        path.display()
    ))
}
