//! What is SQLite's alone: the file, its lock, its durability, the shared commits, the query plans.
//! What every store does is in `tests/it/store_contract.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::domain::{ApproverRule, Id, OnExpiry, RunStart, Scope};
use crate::store::{Change, Found};
use crate::suspension::{Body, Subject};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Home {
    folder: TempDir,
    path: std::path::PathBuf,
    clock: ClockOffset,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("assent.db"),
            folder,
            clock: ClockOffset::default(),
        }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path, self.clock.clone()).unwrap()
    }

    fn refusal(&self) -> String {
        match SqliteStore::open(&self.path, self.clock.clone()) {
            Err(StoreError::Unusable(text)) => text.replace(self.shown(), "PATH"),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was opened"),
        }
    }

    fn shown(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// An opening in a run of its own, with a reason of some size.
fn opening(run: &str, reason: &str) -> Opening {
    let scope = Scope {
        run_id: Id::parse(run).unwrap(),
        ..Scope::default()
    };
    let place = Place::of(&scope, 0);
    Opening {
        id: SuspensionId::new(Uuid::new_v4(), place.partition),
        key: CallKey::of_run_start(&scope),
        grant: None,
        place,
        body: Body {
            scope,
            subject: Subject::Run(RunStart {
                version: Id::parse("1").unwrap(),
            }),
            risk_class: None,
            title: String::new(),
            reason: reason.to_owned(),
            arguments_digest: None,
            on_expiry: OnExpiry::Deny,
            approvers: ApproverRule::default(),
            matched_rule: "default".to_owned(),
            policy_revision: String::new(),
        },
        expires: DAY,
        retention: DAY,
        limit: 10,
    }
}

async fn opened(store: &SqliteStore, run: &str) -> Suspension {
    match SuspensionStore::open(store, &opening(run, ""))
        .await
        .unwrap()
    {
        Opened::Created(suspension) => suspension,
        other => panic!("{other:?}"),
    }
}

/// Calls that have queued up, in order, and wait for their answers.
fn queued<F: Future>(calls: impl IntoIterator<Item = F>) -> Vec<Pin<Box<F>>> {
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    for call in &mut calls {
        assert!(
            call.as_mut().now_or_never().is_none(),
            "it has an answer already"
        );
    }
    calls
}

async fn due_ids(store: &SqliteStore) -> Vec<SuspensionId> {
    let due = store.due(10).await.unwrap();
    due.members.iter().map(|member| member.id).collect()
}

/// Keeps the writer busy until the sender is used or dropped.
async fn hold_writer(store: &Arc<SqliteStore>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (entered, mut is_entered) = tokio::sync::mpsc::channel(1);
    let busy = Arc::clone(store);
    tokio::spawn(async move {
        let wait = move |_: &mut worker::Step<'_>| {
            entered.blocking_send(()).unwrap();
            let _released = released.recv();
            Ok(())
        };
        busy.writer.run(wait).await
    });
    is_entered.recv().await.unwrap();
    release
}

#[tokio::test]
async fn every_commit_is_synced_to_a_write_ahead_log() {
    let home = Home::new();
    let store = home.open();
    let expected = Durability {
        journal_mode: "wal".to_owned(),
        synchronous: 2,
    };
    assert_eq!(store.durability().await.unwrap(), expected);
    store.check().await.unwrap();
    assert_eq!(store.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn only_its_user_can_read_the_file_its_log_and_its_directory() {
    let mut home = Home::new();
    home.path = home.folder.path().join("new/deep/assent.db");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = home.open();
    opened(&store, "r").await;
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let path = format!("{}{suffix}", home.shown());
        assert_eq!(mode(Path::new(&path)), 0o600, "{path}");
    }
    assert_eq!(mode(home.path.parent().unwrap()), 0o700);

    drop(store);
    fs::set_permissions(&home.path, fs::Permissions::from_mode(0o644)).unwrap();
    let _store = home.open();
    assert_eq!(mode(&home.path), 0o600);
}

#[tokio::test]
async fn a_second_one_is_refused_and_told_who_holds_the_file() {
    let home = Home::new();
    let store = home.open();
    let expected = format!(
        "`PATH` is in use by process {}: stop that one first, or give this one another file",
        std::process::id()
    );
    assert_eq!(home.refusal(), expected);

    let link = Home {
        path: home.folder.path().join("link.db"),
        ..Home::new()
    };
    std::os::unix::fs::symlink(&home.path, &link.path).unwrap();
    assert_eq!(link.refusal(), expected.replace("PATH", home.shown()));

    drop(store);
    home.open();
}

#[tokio::test]
async fn reopening_keeps_everything() {
    let home = Home::new();
    let store = home.open();
    let suspension = opened(&store, "r").await;
    let group = Group::Run {
        tenant: Id::default(),
        session: Some(Id::default()),
        run: Id::parse("r").unwrap(),
    };
    let state = suspension.cancelled(&Id::default(), "gone", store_time(&store).await);
    let state = state.unwrap();
    let commit = Commit {
        partition: suspension.id.partition().unwrap(),
        operation: Uuid::new_v4(),
        changes: vec![Change {
            id: suspension.id,
            version: 1,
            upkeep: state.upkeep(suspension.expire_time, DAY),
            state: state.clone(),
        }],
        not_after: None,
        unless_closed: Vec::new(),
        giving: None,
        closing: Some(crate::store::Closing {
            group,
            open: Some(1),
            retention: DAY,
        }),
    };
    assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done);
    drop(store);

    let store = home.open();
    let again = opening("r", "");
    let Found {
        suspension: found,
        closed,
        ..
    } = store
        .find(&again.place, again.key.as_ref(), None)
        .await
        .unwrap();
    let found = found.unwrap();
    assert!(closed);
    assert_eq!(
        (found.id, found.version, &found.state),
        (suspension.id, 2, &state)
    );
    assert_eq!(
        store.commit(&commit).await.unwrap(),
        Committed::Done,
        "the same operation"
    );
}

async fn store_time(store: &SqliteStore) -> Timestamp {
    let unknown = SuspensionId::new(Uuid::nil(), 0);
    store.read(unknown).await.unwrap().1
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let home = Home::new();
    fs::write(
        &home.path,
        "no database at all, however long this text may be",
    )
    .unwrap();
    assert_eq!(
        home.refusal(),
        "`PATH` is no SQLite database: give the store a path of its own"
    );

    let home = Home::new();
    let other = Connection::open(&home.path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert_eq!(
        home.refusal(),
        "`PATH` is the database of another program: give the store a path of its own"
    );
    let mode: String = other
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete");
}

#[test]
fn a_newer_schema_and_another_partition_count_are_refused() {
    for (sql, expected) in [
        (
            "PRAGMA user_version = 2",
            "`PATH` has schema 2 and this version of assent knows schemas up to 1: run the version that wrote it, or a newer one",
        ),
        (
            "UPDATE meta SET value = 128 WHERE name = 'partitions'",
            "`PATH` was written with partitions 128 and this version of assent has partitions 64: run the version that wrote it",
        ),
        (
            "UPDATE meta SET value = 3 WHERE name = 'format'",
            "`PATH` was written with format 3 and this version of assent has format 1: run the version that wrote it",
        ),
    ] {
        let home = Home::new();
        drop(home.open());
        Connection::open(&home.path)
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        assert_eq!(home.refusal(), expected);
    }
}

#[test]
fn a_path_that_cannot_be_written_is_refused() {
    let mut home = Home::new();
    let file = home.folder.path().join("file");
    fs::write(&file, "").unwrap();
    home.path = file.join("assent.db");
    let refusal = home.refusal().replace(file.to_str().unwrap(), "FILE");
    assert!(
        refusal.starts_with("the directory `FILE` cannot be created or written (")
            && refusal.ends_with("give the store a path in a directory that this user can write"),
        "{refusal}"
    );

    home.path = home.folder.path().to_owned();
    assert_eq!(
        home.refusal(),
        "`PATH` is a directory: give the store the path of a file"
    );
}

#[tokio::test]
async fn callers_that_come_together_share_a_commit() {
    let home = Home::new();
    let store = Arc::new(home.open());
    let before = store.commits();
    let release = hold_writer(&store).await;
    let runs: Vec<_> = (0..100).map(|n| format!("run {n}")).collect();
    let callers = queued(runs.iter().map(|run| opened(&store, run)));
    release.send(()).unwrap();
    for caller in callers {
        let id = caller.await.id;
        assert!(store.read(id).await.unwrap().0.is_some());
    }
    assert_eq!(store.commits() - before, 1);
}

#[tokio::test]
async fn a_failing_request_fails_alone() {
    let home = Home::new();
    let store = Arc::new(home.open());
    let release = hold_writer(&store).await;
    let bad = |break_it: fn()| {
        store.writer.run(move |step| {
            step.db.execute("DELETE FROM suspension", [])?;
            break_it();
            Ok(step.db.execute("no SQL", [])?)
        })
    };
    let first = queued([opened(&store, "first")]);
    let failing = queued([bad(|| ()), bad(|| panic!("as planned"))]);
    let last = queued([opened(&store, "last")]);
    release.send(()).unwrap();
    for failed in failing {
        let error = failed.await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    }
    for good in first.into_iter().chain(last) {
        let id = good.await.id;
        assert!(store.read(id).await.unwrap().0.is_some());
    }
}

#[tokio::test]
async fn a_panic_in_a_read_leaves_the_reader_at_work() {
    let home = Home::new();
    let store = home.open();
    for _ in 0..2 * READERS {
        let work = |_: &mut worker::Step<'_>| -> Result<(), StoreError> { panic!("as planned") };
        let error = store.readers.run(work).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the store did not answer: a request to the database panicked"
        );
    }
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_full_queue_turns_callers_away_at_once() {
    let home = Home::new();
    let store = Arc::new(home.open());
    let release = hold_writer(&store).await;
    let waiting = queued((0..worker::QUEUE).map(|_| store.durability()));
    let error = store.durability().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store did not answer: 4096 requests are waiting already"
    );
    release.send(()).unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

#[tokio::test]
async fn a_caller_waits_no_longer_than_the_deadline() {
    let (queue, jobs) = Queue::new(Duration::from_millis(10));
    let error = queue.run(|_| Ok(())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store did not answer: no answer within 10ms"
    );
    drop(jobs);
    let error = queue.run(|_| Ok(())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store did not answer: the thread of the database has ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_alone_is_the_whole_once_the_store_is_closed_or_dropped() {
    let home = Home::new();
    // Several connections that end at once keep one another from emptying the log, but not always.
    for round in 0..40 {
        let store = Arc::new(home.open());
        let ids = [
            opened(&store, &format!("{round}-a")).await.id,
            opened(&store, &format!("{round}-b")).await.id,
        ];
        let reading = (0..8).map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                // It may come too late.
                let _read = store.read(ids[0]).await;
            })
        });
        let reading: Vec<_> = reading.collect();
        if round % 2 == 0 {
            store.close().await;
            let refused = store.read(ids[0]).await.unwrap_err().to_string();
            let ended = "the store did not answer: the thread of the database has ended";
            assert_eq!(refused, ended);
        }
        for read in reading {
            read.await.unwrap();
        }
        drop(store);
        let log = fs::metadata(home.path.with_extension("db-wal"));
        assert_eq!(log.map_or(0, |log| log.len()), 0, "in round {round}");
        let copy = home.folder.path().join("copy.db");
        fs::copy(&home.path, &copy).unwrap();
        let store = SqliteStore::open(&copy, home.clock.clone()).unwrap();
        for id in ids {
            assert!(store.read(id).await.unwrap().0.is_some());
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_passes() {
    let home = Home::new();
    let store = Arc::new(home.open());
    let set_limit = |pages: i64| {
        store.writer.run(move |step| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(step.db.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
        })
    };
    let kept = opened(&store, "kept").await.id;
    set_limit(1).await.unwrap();
    let big = opening("big", &"x".repeat(1024 * 1024));
    let error = SuspensionStore::open(&*store, &big).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store did not answer: database or disk is full"
    );
    let StoreError::Unavailable(cause) = error else {
        panic!("{error}");
    };
    assert!(cause.downcast_ref::<rusqlite::Error>().is_some());
    assert!(store.read(big.id).await.unwrap().0.is_none());

    // Those that share its transaction are told the truth, whichever it is.
    let openings = [opening("before", ""), big.clone(), opening("after", "")];
    let release = hold_writer(&store).await;
    let callers = queued(
        openings
            .iter()
            .map(|one| SuspensionStore::open(&*store, one)),
    );
    release.send(()).unwrap();
    for (caller, opening) in callers.into_iter().zip(&openings) {
        let is_there = matches!(caller.await, Ok(Opened::Created(_)));
        assert_eq!(store.read(opening.id).await.unwrap().0.is_some(), is_there);
    }

    set_limit(1_000_000).await.unwrap();
    let opened = SuspensionStore::open(&*store, &big).await.unwrap();
    assert!(matches!(opened, Opened::Created(_)));
    assert!(store.read(kept).await.unwrap().0.is_some());
}

#[tokio::test]
async fn a_corrupt_record_is_set_aside_and_stops_nothing() {
    let home = Home::new();
    let store = home.open();
    let broken = opened(&store, "r1").await;
    let headless = opened(&store, "r2").await;
    let sound = opened(&store, "r3").await;
    let tenant = Group::Tenant {
        tenant: Id::default(),
    };
    let outside = Connection::open(&home.path).unwrap();
    outside
        .execute(
            "UPDATE suspension SET state = '{' WHERE id = ?1",
            [broken.id.to_string()],
        )
        .unwrap();
    outside
        .execute(
            "DELETE FROM body WHERE seq = (SELECT seq FROM suspension WHERE id = ?1)",
            [headless.id.to_string()],
        )
        .unwrap();

    for id in [broken.id, headless.id] {
        let error = store.read(id).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
    let page = Query {
        group: tenant.clone(),
        open_only: true,
        after: None,
        limit: 1,
    };
    let ids = |suspensions: &[Suspension]| -> Vec<SuspensionId> {
        suspensions.iter().map(|suspension| suspension.id).collect()
    };
    assert_eq!(
        ids(&store.list(&page).await.unwrap().suspensions),
        [sound.id]
    );
    for (suspension, open, readable) in [(&broken, 1, 0), (&sound, 1, 1)] {
        let group = Group::Run {
            tenant: Id::default(),
            session: Some(Id::default()),
            run: suspension.body.scope.run_id.clone(),
        };
        let partition = group.partition().unwrap();
        let members = store.members(partition, &group).await.unwrap();
        assert_eq!((members.open, members.members.len()), (open, readable));
    }

    home.clock.advance(2 * DAY);
    let noted = store.set_aside();
    for _ in 0..2 {
        assert_eq!(due_ids(&store).await, [headless.id, sound.id]);
    }
    assert_eq!(store.set_aside() - noted, 1, "once for each record");
    assert_eq!(store.count_open(&tenant).await.unwrap(), 3);
}

#[tokio::test]
async fn the_end_of_a_run_and_the_sweep_read_no_body() {
    let home = Home::new();
    let store = home.open();
    let held = opened(&store, "r").await;
    let outside = Connection::open(&home.path).unwrap();
    outside.execute_batch("DELETE FROM body").unwrap();
    let run = Group::Run {
        tenant: Id::default(),
        session: Some(Id::default()),
        run: Id::parse("r").unwrap(),
    };
    let partition = run.partition().unwrap();
    let members = store.members(partition, &run).await.unwrap();
    let found: Vec<_> = members
        .members
        .iter()
        .map(|member| (member.id, member.on_expiry, member.run))
        .collect();
    assert_eq!(found, [(held.id, OnExpiry::Deny, run.own_run())]);
    home.clock.advance(2 * DAY);
    assert_eq!(due_ids(&store).await, [held.id]);
    assert_eq!(store.set_aside(), 0);
}

#[tokio::test]
async fn a_sweep_collects_in_bounded_batches_and_says_when_there_is_more() {
    let home = Home::new();
    let store = home.open();
    let fill = |step: &mut worker::Step<'_>| {
        step.db.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
             INSERT INTO suspension (id, part, format, version, tenant, create_time, expire_time,
                                     on_expiry, open, collect, state)
             SELECT 'id ' || i, 0, 1, 1, x'00', 0, 0, 'deny', 0, 1, '' FROM n",
            [],
        )?;
        Ok(())
    };
    store.writer.run(fill).await.unwrap();
    let left = || {
        store.readers.run(|step| {
            let sql = "SELECT count(*) FROM suspension";
            Ok(step.db.query_row(sql, [], |row| row.get::<_, i64>(0))?)
        })
    };
    for (expected, more) in [(700, true), (200, true), (0, false), (0, false)] {
        assert_eq!(store.due(10).await.unwrap().more, more);
        assert_eq!(left().await.unwrap(), expected);
    }
}

#[test]
fn every_statement_finds_its_rows_by_an_index() {
    let home = Home::new();
    drop(home.open());
    let db = Connection::open(&home.path).unwrap();
    let mut sorts = Vec::new();
    let statements = [
        records::statements(),
        groups::statements(),
        grants::statements(),
        writes::statements(),
        sweep::statements(),
    ];
    for sql in statements.concat() {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            plan.push(row.get::<_, String>("detail").unwrap());
        }
        let plan = plan.join("\n");
        let is_open_only = sql.contains("s.open = 1");
        assert!(plan.contains("USING"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN suspension"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN s"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN closing"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN session_grant"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN g"), "{sql}\n{plan}");
        assert_eq!(plan.contains("open_by_"), is_open_only, "{sql}\n{plan}");
        if sql.contains("count(") {
            assert!(plan.contains("COVERING INDEX"), "{sql}\n{plan}");
        }
        if plan.contains("TEMP B-TREE") {
            sorts.push(sql);
        }
    }
    assert_eq!(sorts, Vec::<String>::new());
}
