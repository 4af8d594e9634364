//! What commands read: a file, or standard input.

use std::io::{self, Read as _};
use std::path::Path;

/// The text of a file, or of standard input if it is called `-`.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map(|_| text)
}
