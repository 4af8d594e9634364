//! Generates the Rust side of the contract from `proto/`: messages, the server and client of each service, and the
//! descriptor set that server reflection and the tests read. protox compiles the files, so no protoc is needed.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const INCLUDE_DIR: &str = "proto";
const PACKAGE_DIR: &str = "proto/assent/v1";
const DESCRIPTOR_FILE: &str = "assent_descriptor.bin";

fn main() -> Result<(), Box<dyn Error>> {
    // A directory is watched with all that is in it, so this covers new and removed files too.
    println!("cargo::rerun-if-changed={INCLUDE_DIR}");
    println!("cargo::rerun-if-changed=build.rs");

    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let files = proto_files(Path::new(PACKAGE_DIR))?;

    let mut compiler = protox::Compiler::new([INCLUDE_DIR])?;
    // Source info carries the comments: into the generated docs, and to `grpcurl describe`.
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?;

    fs::write(
        out_dir.join(DESCRIPTOR_FILE),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .codec_path("crate::codec::SmallBuffers")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// The `.proto` files of a directory, sorted so that the output does not depend on the file system.
fn proto_files(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("no .proto file in `{}`", dir.display()).into());
    }
    files.sort();
    Ok(files)
}
