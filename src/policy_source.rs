//! Reads a policy from the disk: one file, or a directory of them (S4). What the texts mean is the policy's affair.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::policy::{MAX_BYTES, Policy, PolicyError, Source};

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicySourceError {
    /// A file or a directory cannot be read.
    #[error("the policy `{path}` cannot be read: {error}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A directory has no document: that is no policy which allows everything.
    #[error(
        "the policy directory `{0}` has no document: write at least one visible file in it that ends in `.yaml` or `.yml`"
    )]
    NoDocument(PathBuf),
    /// What stands for a file is a pipe, a socket or a device, or in a directory another directory.
    #[error(
        "the policy `{0}` is no regular file: write the document into one, or give it another ending"
    )]
    NoFile(PathBuf),
    /// The document is wrong.
    #[error(transparent)]
    Broken(#[from] PolicyError),
}

/// Reads and compiles a policy.
///
/// # Errors
/// When it cannot be read, or is not one.
pub fn load(path: &Path) -> Result<Policy, PolicySourceError> {
    Ok(Policy::compile(&read(path)?)?)
}

/// As [`read`], of what is followed: to read from a pipe in its place could take for ever.
///
/// # Errors
/// As [`read`], and when it is neither a file nor a directory.
pub fn read_again(path: &Path) -> Result<Vec<Source>, PolicySourceError> {
    if is_read_once(path) {
        return Err(PolicySourceError::NoFile(path.to_owned()));
    }
    read(path)
}

/// Reads the file, or the visible `*.yaml` and `*.yml` of the directory in byte order of name, without subfolders.
///
/// # Errors
/// When something cannot be read, or a directory has no document.
pub fn read(path: &Path) -> Result<Vec<Source>, PolicySourceError> {
    let unreadable = |error| unreadable(path, error);
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let bytes = name.as_bytes();
        if !bytes.starts_with(b".") && (bytes.ends_with(b".yaml") || bytes.ends_with(b".yml")) {
            names.push(name);
        }
    }
    names.sort();
    let mut sources = Vec::new();
    for name in names {
        let file = path.join(name);
        // Through links: a ConfigMap's files are some. One that leads nowhere is an error, as the rules it held
        // must not be missed in silence.
        let metadata = fs::metadata(&file).map_err(|error| self::unreadable(&file, error))?;
        // To read from a pipe could take for ever, and a directory stands where a mount is missing.
        if !metadata.is_file() {
            return Err(PolicySourceError::NoFile(file));
        }
        sources.push(read_file(&file)?);
    }
    if sources.is_empty() {
        return Err(PolicySourceError::NoDocument(path.to_owned()));
    }
    Ok(sources)
}

/// Whether what is there is neither a file nor a directory, but a pipe or a device.
pub fn is_read_once(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn read_file(path: &Path) -> Result<Source, PolicySourceError> {
    let read = || {
        let mut text = String::new();
        // One byte more is enough to refuse it.
        let file = fs::File::open(path)?;
        file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    Ok(Source {
        name: path.display().to_string(),
        text: read().map_err(|error| unreadable(path, error))?,
    })
}

fn unreadable(path: &Path, error: io::Error) -> PolicySourceError {
    PolicySourceError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(sources: &[Source]) -> Vec<&str> {
        let name = |source: &'_ Source| source.name.rfind('/').map_or(0, |slash| slash + 1);
        sources
            .iter()
            .map(|source| &source.name[name(source)..])
            .collect()
    }

    #[test]
    fn a_directory_is_its_visible_documents_in_byte_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b.yaml",
            "a.yml",
            "B.yaml",
            ".hidden.yaml",
            "notes.txt",
            "c.YAML",
            "d.yaml.bak",
        ] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("folder/e.yaml"), "").unwrap();
        let sources = read(dir.path()).unwrap();
        assert_eq!(names(&sources), ["B.yaml", "a.yml", "b.yaml"]);
        assert_eq!(sources[1].text, "a.yml");
    }

    #[test]
    fn links_are_followed_as_a_config_map_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("..data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("policy.yaml"), "version: 1").unwrap();
        symlink("..data/policy.yaml", dir.path().join("policy.yaml")).unwrap();
        assert_eq!(names(&read(dir.path()).unwrap()), ["policy.yaml"]);
        symlink("..data/nothing.yaml", dir.path().join("rest.yaml")).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("rest.yaml` cannot be read"), "{error}");
    }

    #[test]
    fn a_directory_without_documents_is_no_policy() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("policy.json"), "{}").unwrap();
        let error = load(dir.path()).unwrap_err();
        assert!(matches!(error, PolicySourceError::NoDocument(_)));
    }

    #[test]
    fn only_regular_files_of_a_directory_are_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), "version: 1").unwrap();
        let other = dir.path().join("b.yaml");
        let refused = || {
            let error = load(dir.path()).unwrap_err();
            assert!(matches!(error, PolicySourceError::NoFile(path) if path == other));
        };
        let _socket = UnixListener::bind(&other).unwrap();
        refused();
        // What a container runtime makes of a mount that is missing.
        fs::remove_file(&other).unwrap();
        fs::create_dir(&other).unwrap();
        refused();
    }

    #[test]
    fn of_a_file_that_is_too_large_no_more_is_read_than_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        let file = fs::File::create(&path).unwrap();
        file.set_len(64 * MAX_BYTES as u64).unwrap();
        assert_eq!(read(&path).unwrap()[0].text.len(), MAX_BYTES + 1);
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("split it into several files"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("policy.yaml");
        let error = load(&missing).unwrap_err().to_string();
        assert!(error.contains("policy.yaml` cannot be read: "), "{error}");
        fs::write(&missing, [0xff]).unwrap();
        let error = load(&missing).unwrap_err().to_string();
        assert!(error.contains("policy.yaml` cannot be read: "), "{error}");
    }
}
