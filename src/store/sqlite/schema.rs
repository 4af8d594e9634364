//! The tables, how they came about, and how a connection to them is set up.
//!
//! Callers' texts stand only in the JSON of `body`, `state` and `leave`; index columns hold hashes of them.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use super::StoreError;
use crate::store::record::FORMAT;
use crate::suspension::PARTITIONS;

/// Marks the file as Assent's ("Asnt"), for `file(1)` and against another program's database.
const APPLICATION_ID: i64 = 0x4173_6e74;

/// How long a statement waits for another program that has the file open, as a backup may.
const BUSY: Duration = Duration::from_secs(2);

/// How much of the write-ahead log is kept once it was copied into the file.
const LOG_BYTES: i64 = 64 * 1024 * 1024;

/// The schema, as the steps that lead to it; `PRAGMA user_version` counts those taken. A step that was
/// released never changes.
///
/// `wake` is when time will change the record, `collect` when the record may go: a record has one of
/// the two, or neither while nobody knows how its execution ended. `run` is the run whatever its
/// session, `own_run` the run of this session. The body is a table of its own, so that a change of
/// the state does not write it again. `on_expiry` repeats what the body says, so that the end of a
/// run reads no body.
const STEPS: &[&str] = &["
    CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE suspension (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        part INTEGER NOT NULL,
        format INTEGER NOT NULL,
        version INTEGER NOT NULL,
        operation BLOB,
        call_key BLOB,
        tenant BLOB NOT NULL,
        session BLOB,
        run BLOB,
        own_run BLOB,
        create_time INTEGER NOT NULL,
        expire_time INTEGER NOT NULL,
        on_expiry TEXT NOT NULL,
        open INTEGER NOT NULL,
        wake INTEGER,
        collect INTEGER,
        state TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX by_id ON suspension (id);
    CREATE UNIQUE INDEX by_key ON suspension (call_key) WHERE call_key IS NOT NULL;
    CREATE INDEX by_wake ON suspension (wake) WHERE wake IS NOT NULL;
    CREATE INDEX by_collect ON suspension (collect) WHERE collect IS NOT NULL;
    CREATE INDEX by_tenant ON suspension (tenant, expire_time, id);
    CREATE INDEX by_session ON suspension (session, expire_time, id) WHERE session IS NOT NULL;
    CREATE INDEX by_run ON suspension (run, expire_time, id, own_run) WHERE run IS NOT NULL;
    CREATE INDEX open_by_tenant ON suspension (tenant, expire_time, id, part) WHERE open = 1;
    CREATE INDEX open_by_session ON suspension (session, expire_time, id, part)
        WHERE open = 1 AND session IS NOT NULL;
    CREATE INDEX open_by_run ON suspension (run, expire_time, id, part, own_run)
        WHERE open = 1 AND run IS NOT NULL;

    CREATE TABLE body (
        seq INTEGER PRIMARY KEY,
        json TEXT NOT NULL
    ) STRICT;

    CREATE TABLE closing (
        part INTEGER NOT NULL,
        hash BLOB NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (part, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX by_until ON closing (until);

    CREATE TABLE session_grant (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        part INTEGER NOT NULL,
        format INTEGER NOT NULL,
        grant_key BLOB NOT NULL,
        tenant BLOB NOT NULL,
        session BLOB NOT NULL,
        create_time INTEGER NOT NULL,
        expire_time INTEGER NOT NULL,
        collect INTEGER NOT NULL,
        leave TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX grant_by_id ON session_grant (id);
    CREATE INDEX grant_by_key ON session_grant (grant_key, expire_time);
    CREATE INDEX grant_by_tenant ON session_grant (tenant, expire_time, id);
    CREATE INDEX grant_by_session ON session_grant (session, expire_time, id);
    CREATE INDEX grant_by_collect ON session_grant (collect);
"];

/// Opens the one connection that writes, and brings the file to this version's schema.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let db = connect(path).map_err(|error| unusable(path, &error))?;
    prepare(&db, path, STEPS)?;
    Ok(db)
}

/// Opens a connection that only reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let read_only = |path| -> Result<Connection, Error> {
        let db = connect(path)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    };
    read_only(path).map_err(|error| unusable(path, &error))
}

fn connect(path: &Path) -> Result<Connection, Error> {
    // No CREATE: the file exists by now, with the mode it must have.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.set_prepared_statement_cache_capacity(64);
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "temp_store", "memory")?;
    Ok(db)
}

fn prepare(db: &Connection, path: &Path, steps: &[&str]) -> Result<(), StoreError> {
    let version = check_owner(db, path, steps.len())?;
    let mode = set_up_writer(db).map_err(|error| unusable(path, &error))?;
    if mode != "wal" {
        return Err(StoreError::Unusable(format!(
            "`{}` cannot have a write-ahead log (its journal mode stays `{mode}`): put it on a local file system",
            path.display()
        )));
    }
    for (version, step) in (1..).zip(steps).skip(version) {
        migrate(db, step, version).map_err(|error| unusable(path, &error))?;
    }
    check_meta(db, path)
}

/// Whose file it is, and how many of the known steps were taken.
fn check_owner(db: &Connection, path: &Path, known: usize) -> Result<usize, StoreError> {
    let pragma = |name: &str| -> Result<i64, StoreError> {
        db.pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| unusable(path, &error))
    };
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| unusable(path, &error))?;
    let (version, owner) = (pragma("user_version")?, pragma("application_id")?);
    let shown = path.display();
    if owner != APPLICATION_ID && (tables > 0 || version != 0) {
        return Err(StoreError::Unusable(format!(
            "`{shown}` is the database of another program: give the store a path of its own"
        )));
    }
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        Ok(_) | Err(_) => Err(StoreError::Unusable(format!(
            "`{shown}` has schema {version} and this version of assent knows schemas up to {known}: run the version that wrote it, or a newer one"
        ))),
    }
}

/// Makes commits durable, and gives the journal mode that the file took.
fn set_up_writer(db: &Connection) -> Result<String, Error> {
    db.pragma_update(None, "synchronous", "full")?;
    // On macOS only this reaches the platter; elsewhere it says nothing.
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    let limit = format!("PRAGMA journal_size_limit = {LOG_BYTES}");
    db.query_row(&limit, [], |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
}

fn migrate(db: &Connection, step: &str, version: i64) -> Result<(), Error> {
    let transaction = db.unchecked_transaction()?;
    transaction.execute_batch(step)?;
    transaction.execute(
        "INSERT OR IGNORE INTO meta (name, value) VALUES ('partitions', ?1), ('format', ?2)",
        [i64::from(PARTITIONS), i64::from(FORMAT)],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

fn check_meta(db: &Connection, path: &Path) -> Result<(), StoreError> {
    for (name, ours) in [
        ("partitions", i64::from(PARTITIONS)),
        ("format", i64::from(FORMAT)),
    ] {
        let sql = "SELECT value FROM meta WHERE name = ?1";
        let theirs: i64 = db
            .query_row(sql, [name], |row| row.get(0))
            .map_err(|error| unusable(path, &error))?;
        if theirs != ours {
            return Err(StoreError::Unusable(format!(
                "`{}` was written with {name} {theirs} and this version of assent has {name} {ours}: run the version that wrote it",
                path.display()
            )));
        }
    }
    Ok(())
}

fn unusable(path: &Path, error: &Error) -> StoreError {
    let path = path.display();
    StoreError::Unusable(match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            format!("`{path}` is no SQLite database: give the store a path of its own")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("`{path}` is locked by another program that has it open: close that program")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => format!(
            "`{path}` cannot be written ({error}): give the store a path in a directory that this user can write"
        ),
        _ => format!("`{path}` cannot be used as a store: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
                         CREATE TABLE one (x)";

    #[test]
    fn a_file_takes_the_steps_it_has_not_taken_each_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("assent.db");
        std::fs::File::create(&path).unwrap();
        let db = connect(&path).unwrap();
        let taken = || db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        let tables = || {
            let sql = "SELECT group_concat(name, ' ') FROM sqlite_schema WHERE type = 'table'";
            db.query_row(sql, [], |row| row.get::<_, String>(0))
        };
        prepare(&db, &path, &[FIRST]).unwrap();
        assert_eq!(
            (taken().unwrap(), tables().unwrap().as_str()),
            (1, "meta one")
        );

        let broken = [
            FIRST,
            "CREATE TABLE two (x)",
            "CREATE TABLE three (x); no statement",
        ];
        assert!(prepare(&db, &path, &broken).is_err());
        assert_eq!(
            (taken().unwrap(), tables().unwrap().as_str()),
            (2, "meta one two")
        );

        let mended = [FIRST, "CREATE TABLE two (x)", "CREATE TABLE three (x)"];
        prepare(&db, &path, &mended).unwrap();
        prepare(&db, &path, &mended).unwrap();
        assert_eq!(
            (taken().unwrap(), tables().unwrap().as_str()),
            (3, "meta one two three")
        );
    }
}
