//! Policies replaced while the server serves (S12): seen however the files change, taken whole or not at all.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use assent::pb;
use assent::policy::{Policy, Source};
use assent::policy_source;
use assent::reload::{Counts, Reload};
use assent::store::clock::ClockOffset;
use assent::store::sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::support::server::{Process, health, in_process};
use crate::support::{SOON, eventually};
use crate::wire;

const POLICY: &str = "assent.policy";

/// A document whose one rule has this id and decides every call.
fn document(rule: &str, decision: &str) -> String {
    format!("selectors: []\nrules:\n  - {{id: {rule}, tools: [\"*\"], decision: {decision}}}\n")
}

fn revision(text: &str) -> String {
    let source = Source {
        name: "policy.yaml".to_owned(),
        text: text.to_owned(),
    };
    Policy::compile(&[source]).unwrap().revision().to_owned()
}

/// Another file, renamed over the old one.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

// --- Each way of replacing, in this process ---

/// A policy that follows its files.
struct Followed {
    policy: Arc<ArcSwap<Policy>>,
    reload: Arc<Reload>,
    told: watch::Receiver<Option<bool>>,
    following: JoinHandle<()>,
}

impl Followed {
    /// Follows the file or directory from what is there, and waits until it has looked once.
    async fn start(path: &Path) -> Self {
        let policy = Arc::new(ArcSwap::from_pointee(policy_source::load(path).unwrap()));
        let reload = Arc::new(Reload::new(path.to_owned(), Arc::clone(&policy)));
        let (tell, mut told) = watch::channel(None);
        let follower = Arc::clone(&reload);
        let following = tokio::spawn(async move {
            let tell = |usable| {
                let _ = tell.send(Some(usable));
                std::future::ready(())
            };
            follower.follow(tell).await;
        });
        told.wait_for(Option::is_some).await.unwrap();
        Self {
            policy,
            reload,
            told,
            following,
        }
    }

    /// Waits until the newest document is in use and is the one with this rule.
    async fn uses(&self, rule: &str) {
        let wanted = revision(&document(rule, "deny"));
        let uses = async || self.is_usable() && self.revision() == wanted;
        assert!(eventually(SOON, uses).await, "`{rule}` is not in use");
    }

    /// Waits until the newest document is refused.
    async fn refuses(&self) {
        assert!(eventually(SOON, async || !self.is_usable()).await);
    }

    fn is_usable(&self) -> bool {
        self.told.borrow().unwrap()
    }

    fn revision(&self) -> String {
        self.policy.load().revision().to_owned()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// A folder with `policies/policy.yaml` in it, which says `deny` by the rule `first`.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("policies");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("policy.yaml"), document("first", "deny")).unwrap();
    (folder, directory)
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_taken() {
    let (_folder, directory) = folder();
    let file = directory.join("policy.yaml");
    let followed = Followed::start(&file).await;
    fs::write(&file, document("second", "deny")).unwrap();
    followed.uses("second").await;
    let taken = Counts {
        reloads: 1,
        failures: 0,
    };
    assert_eq!(followed.reload.counts(), taken);
}

#[tokio::test]
async fn a_file_that_is_renamed_over_the_old_one_is_taken_again_and_again() {
    let (_folder, directory) = folder();
    let file = directory.join("policy.yaml");
    for path in [&file, &directory] {
        let followed = Followed::start(path).await;
        for rule in ["second", "third", "first"] {
            replace(&file, &document(rule, "deny"));
            followed.uses(rule).await;
        }
    }
}

#[tokio::test]
async fn a_config_map_is_taken_when_its_data_link_is_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path();
    // As the kubelet writes it: a new directory, then one rename of a link to it.
    let publish = |stamp: &str, rule: &str| {
        let data = mount.join(format!("..{stamp}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("policy.yaml"), document(rule, "deny")).unwrap();
        let old = fs::read_link(mount.join("..data"));
        symlink(format!("..{stamp}"), mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        if let Ok(old) = old {
            fs::remove_dir_all(mount.join(old)).unwrap();
        }
    };
    publish("2026_01_01", "first");
    symlink("..data/policy.yaml", mount.join("policy.yaml")).unwrap();
    let whole = Followed::start(mount).await;
    let file = Followed::start(&mount.join("policy.yaml")).await;
    for (stamp, rule) in [("2026_01_02", "second"), ("2026_01_03", "third")] {
        publish(stamp, rule);
        whole.uses(rule).await;
        file.uses(rule).await;
    }
    let taken = Counts {
        reloads: 2,
        failures: 0,
    };
    assert_eq!(
        (whole.reload.counts(), file.reload.counts()),
        (taken, taken)
    );
}

#[tokio::test]
async fn a_directory_that_is_replaced_by_another_one_is_taken_and_followed_further() {
    let (folder, directory) = folder();
    let file = directory.join("policy.yaml");
    for path in [&file, &directory] {
        let followed = Followed::start(path).await;
        for rule in ["second", "first"] {
            let next = folder.path().join("next");
            fs::create_dir(&next).unwrap();
            fs::write(next.join("policy.yaml"), document(rule, "deny")).unwrap();
            fs::rename(&directory, folder.path().join("old")).unwrap();
            fs::rename(&next, &directory).unwrap();
            followed.uses(rule).await;
            fs::remove_dir_all(folder.path().join("old")).unwrap();
        }
        fs::write(&file, document("third", "deny")).unwrap();
        followed.uses("third").await;
        fs::write(&file, document("first", "deny")).unwrap();
        followed.uses("first").await;
    }
}

#[tokio::test]
async fn a_directory_that_is_a_link_is_taken_when_the_link_leads_elsewhere() {
    let (folder, directory) = folder();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("policy.yaml"), document("second", "deny")).unwrap();
    let current = folder.path().join("current");
    symlink(&directory, &current).unwrap();
    let followed = Followed::start(&current.join("policy.yaml")).await;
    let next = folder.path().join("next");
    symlink(&other, &next).unwrap();
    fs::rename(&next, &current).unwrap();
    followed.uses("second").await;
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_document_is_refused_and_nobody_waits_for_it() {
    let (_folder, directory) = folder();
    let file = directory.join("policy.yaml");
    for path in [&file, &directory] {
        let followed = Followed::start(path).await;
        fs::remove_file(&file).unwrap();
        let made = Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        followed.refuses().await;
        replace(&file, &document("second", "deny"));
        followed.uses("second").await;
        replace(&file, &document("first", "deny"));
        followed.uses("first").await;
    }
}

#[tokio::test]
async fn what_is_gone_empty_or_broken_changes_nothing_until_it_is_mended() {
    let (folder, directory) = folder();
    let file = directory.join("policy.yaml");
    for path in [&file, &directory] {
        let followed = Followed::start(path).await;
        let first = followed.revision();
        for broken in [
            "",
            "# nothing but this\n",
            "{}",
            "rules: [",
            "defalt: deny\n",
        ] {
            replace(&file, broken);
            followed.refuses().await;
            assert_eq!(followed.revision(), first, "{broken:?}");
            replace(&file, &document("first", "deny"));
            followed.uses("first").await;
        }
        fs::remove_file(&file).unwrap();
        followed.refuses().await;
        fs::rename(&directory, folder.path().join("away")).unwrap();
        fs::create_dir(&directory).unwrap();
        followed.reload.ask();
        let failed_again = async || followed.reload.counts().failures >= 7;
        assert!(eventually(SOON, failed_again).await);
        assert_eq!((followed.is_usable(), followed.revision()), (false, first));
        fs::write(&file, document("second", "deny")).unwrap();
        followed.uses("second").await;
        fs::write(&file, document("first", "deny")).unwrap();
        followed.uses("first").await;
        fs::remove_dir_all(folder.path().join("away")).unwrap();
    }
}

#[tokio::test]
async fn files_that_change_one_after_the_other_are_one_reload() {
    /// Less than the files must have been quiet for.
    const SHORT: Duration = Duration::from_millis(200);
    let part = |name: &str, round: u32| format!("never: [\"{name}-{round}.*\"]\n");
    let names = ["a.yaml", "b.yaml", "c.yaml", "d.yaml"];
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        fs::write(folder.path().join(name), part(name, 0)).unwrap();
    }
    let followed = Followed::start(folder.path()).await;
    // On a machine that does much else a pause may become too long to say anything: then once more.
    for round in 1..=20 {
        let before = followed.reload.counts();
        let mut longest = Duration::ZERO;
        let mut last = Instant::now();
        for name in names {
            replace(&folder.path().join(name), &part(name, round));
            sleep(SHORT / 4).await;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        let wanted = policy_source::load(folder.path()).unwrap();
        let all = async || followed.revision() == wanted.revision();
        assert!(eventually(SOON, all).await);
        let after = followed.reload.counts();
        if longest < SHORT {
            let one_more = Counts {
                reloads: before.reloads + 1,
                failures: 0,
            };
            assert_eq!(after, one_more, "after a pause of {longest:?} at most");
            return;
        }
    }
    panic!("the machine is too slow for this test");
}

// --- The binary: what it decides by, logs and says of its health ---

/// The binary with a policy file of its own.
struct Served {
    _folder: TempDir,
    file: PathBuf,
    server: Process,
}

impl Served {
    fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let server = Process::start(&["--policy", path, "--log-level", "assent=debug"]);
        Self {
            _folder: folder,
            file,
            server,
        }
    }

    async fn policy_is(&self, status: ServingStatus) {
        let is = async || health(self.server.address(), POLICY).await == Some(status);
        assert!(eventually(SOON, is).await, "{}", self.server.stderr());
    }

    async fn logs(&self, text: &str) {
        let logged = async || self.server.stderr().contains(text);
        let in_time = eventually(SOON, logged).await;
        assert!(in_time, "`{text}` is not in: {}", self.server.stderr());
    }

    async fn decides_by(&self, rule: &str) {
        let mut client = self.server.client();
        let decides = async || {
            let decided = client.decide(wire::destructive("one")).await.unwrap();
            decided.into_inner().matched_rule == rule
        };
        assert!(eventually(SOON, decides).await, "{}", self.server.stderr());
    }
}

#[tokio::test]
async fn a_reload_is_logged_with_both_revisions_and_the_warnings_of_the_new_document() {
    let (old, new) = (document("first", "deny"), document("second", "allow"));
    let new = new.replace("decision", "denylist: [\"rm *\"], decision");
    let served = Served::start(&old);
    replace(&served.file, &new);
    served.decides_by("second").await;
    served
        .logs(&format!(
            "the policy was reloaded old_revision=\"{}\" revision=\"{}\" reloads=1",
            revision(&old),
            revision(&new)
        ))
        .await;
    served
        .logs(&format!(
            "WARN assent::reload: {}:3:",
            served.file.display()
        ))
        .await;
    replace(&served.file, "selectors: []\n");
    served.logs("this is not a security control").await;
    served.policy_is(ServingStatus::Serving).await;
}

#[tokio::test]
async fn a_broken_document_is_logged_once_with_its_place_and_shown_by_health_until_it_is_mended() {
    let served = Served::start(&document("first", "deny"));
    served.policy_is(ServingStatus::Serving).await;
    let misspelt = "default: allow\nrules:\n  - {id: a, tools: [\"*\"], decison: deny}\n";
    replace(&served.file, misspelt);
    let first_fault = format!("error={}:3:", served.file.display());
    served.logs(&first_fault).await;
    served.logs("`decison`").await;
    served.policy_is(ServingStatus::NotServing).await;
    served.decides_by("first").await;
    let probed = served
        .server
        .client_command(&["health", "--service", POLICY]);
    assert_eq!(
        (probed.code(), probed.stdout.as_str()),
        (Some(1), "NOT_SERVING\n")
    );
    for entry in ["", "assent.v1.DecisionService"] {
        let status = health(served.server.address(), entry).await;
        assert_eq!(status, Some(ServingStatus::Serving), "`{entry}`");
    }

    // The same fault in another text is counted and not logged again; another one is.
    replace(&served.file, &format!("{misspelt}# nearly done\n"));
    served.logs("refused for the same reason failures=2").await;
    replace(&served.file, "");
    served
        .logs(&format!("error={}:1:1: ", served.file.display()))
        .await;
    served.logs("failures=3").await;
    assert_eq!(served.server.stderr().matches(&first_fault).count(), 1);
    served.decides_by("first").await;

    replace(&served.file, &document("first", "deny"));
    served.policy_is(ServingStatus::Serving).await;
    served.logs("on the disk again as it is in use").await;
    fs::remove_file(&served.file).unwrap();
    served.policy_is(ServingStatus::NotServing).await;
    served.logs("cannot be read: ").await;
    served.decides_by("first").await;
    replace(&served.file, &document("second", "deny"));
    served.policy_is(ServingStatus::Serving).await;
    served.decides_by("second").await;
}

#[tokio::test]
async fn sighup_reloads_at_once_also_what_has_not_changed_and_says_so() {
    let text = document("first", "deny");
    let served = Served::start(&text);
    served.server.signal("HUP");
    let revision = revision(&text);
    served
        .logs(&format!(
            "reloaded old_revision=\"{revision}\" revision=\"{revision}\" reloads=1"
        ))
        .await;
    fs::write(&served.file, "rules: 1\n").unwrap();
    for _ in 0..2 {
        served.server.signal("HUP");
        let before = served.server.stderr().matches("is not reloaded").count();
        let again = async || served.server.stderr().matches("is not reloaded").count() > before;
        assert!(eventually(SOON, again).await, "{}", served.server.stderr());
    }
    served.decides_by("first").await;
}

#[tokio::test]
async fn a_policy_that_was_read_from_a_pipe_stays_and_sighup_does_not_end_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let path = pipe.clone();
    let writing = std::thread::spawn(move || fs::write(path, document("piped", "deny")).unwrap());
    let server = Process::start(&["--policy", pipe.to_str().unwrap()]);
    writing.join().unwrap();
    server.signal("HUP");
    let decided = server.client().decide(wire::destructive("one")).await;
    assert_eq!(decided.unwrap().into_inner().matched_rule, "piped");
    let status = health(server.address(), POLICY).await;
    assert_eq!(status, Some(ServingStatus::Serving));
    assert!(
        server.stderr().contains("needs a restart"),
        "{}",
        server.stderr()
    );
}

#[tokio::test]
async fn without_a_policy_sighup_ends_the_server_as_it_ends_any_program() {
    // Under `nohup` a child ignores it too; what is caught here is for the child as it always was.
    let _caught = signal(SignalKind::hangup()).unwrap();
    let server = Process::start(&[]);
    server.signal("HUP");
    let ended = server.wait().await;
    assert_eq!(ended.status.signal(), Some(1), "{ended:?}");
}

#[tokio::test]
async fn a_new_document_holds_whole_with_its_limits_and_terms() {
    let served = Served::start(&document("first", "ask"));
    let client = served.server.client();
    let before = wire::suspend(&client, "before").await;
    replace(
        &served.file,
        "suspensions: {approval: {expires: 1h, on_expiry: deny}}\nlimits: {max_arguments_bytes: 8}\n",
    );
    let mut asking = client.clone();
    let refused = async || {
        let refused = asking.decide(wire::destructive("large")).await;
        refused.is_err_and(|status| wire::reason(&status) == "INVALID_REQUEST")
    };
    assert!(eventually(SOON, refused).await);
    let mut small = wire::destructive("small");
    if let Some(pb::decide_request::Action::Call(call)) = &mut small.action {
        call.arguments_json = "{}".to_owned();
    }
    let decided = client.clone().decide(small).await.unwrap().into_inner();
    let after = decided.suspension.unwrap();
    assert_eq!(after.on_expiry(), pb::OnExpiry::Deny);
    // What was opened under the old document is as it was.
    assert_eq!(wire::get(&client, &before.id).await, before);
}

// --- Under load ---

/// What an answer says of the document that it came from.
type Origin = (String, String, i32);

fn origin(decided: &pb::DecideResponse) -> Origin {
    let rule = decided.matched_rule.clone();
    (decided.policy_revision.clone(), rule, decided.effect)
}

/// Two documents that answer differently, and where their answers come from.
fn two_documents() -> ([String; 2], [Origin; 2]) {
    let texts = [document("one", "allow"), document("two", "deny")];
    let [one, two] = [revision(&texts[0]), revision(&texts[1])];
    let origins = [
        (one, "one".to_owned(), pb::Effect::Allow.into()),
        (two, "two".to_owned(), pb::Effect::Deny.into()),
    ];
    (texts, origins)
}

/// Clients that ask one call after the other, and batches, until they are told to stop. They fail on an answer that
/// is of neither document, and on a batch that is of both.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<HashSet<Origin>>>,
}

impl Load {
    fn start(client: &wire::Client, origins: &[Origin; 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..6).map(|number| {
            let (mut client, stop) = (client.clone(), Arc::clone(&stop));
            let origins = HashSet::from(origins.clone());
            tokio::spawn(async move {
                let mut seen = HashSet::new();
                while !stop.load(Ordering::Relaxed) {
                    let request = wire::destructive("under-load");
                    let answers = if number % 2 == 0 {
                        let decided = client.decide(request).await.unwrap();
                        HashSet::from([origin(&decided.into_inner())])
                    } else {
                        let requests = vec![request; 50];
                        let batch = pb::BatchDecideRequest { requests };
                        let batch = client.batch_decide(batch).await.unwrap();
                        batch.into_inner().responses.iter().map(decided).collect()
                    };
                    assert_eq!(answers.len(), 1, "one batch of two documents: {answers:?}");
                    assert!(answers.is_subset(&origins), "of neither: {answers:?}");
                    seen.extend(answers);
                }
                seen
            })
        });
        Self {
            clients: clients.collect(),
            stop,
        }
    }

    /// Stops, and gives the documents that each client had answers from.
    async fn stop(self) -> Vec<HashSet<Origin>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = Vec::new();
        for client in self.clients {
            seen.push(client.await.unwrap());
        }
        seen
    }
}

fn decided(result: &pb::BatchDecideResult) -> Origin {
    match &result.result {
        Some(pb::batch_decide_result::Result::Decision(decided)) => origin(decided),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_every_answer_of_the_binary_is_of_one_document() {
    const SWAPS: usize = 40;
    let (texts, origins) = two_documents();
    let served = Served::start(&texts[0]);
    let client = served.server.client();
    let load = Load::start(&client, &origins);
    for swap in 1..=SWAPS {
        let now = swap % 2;
        replace(&served.file, &texts[now]);
        // Every other one waits until the files are quiet, as it does without a signal.
        if swap % 4 < 2 {
            served.server.signal("HUP");
        }
        let mut asking = client.clone();
        let is_in_use = async || {
            let decided = asking.decide(wire::destructive("swap")).await.unwrap();
            origin(&decided.into_inner()) == origins[now]
        };
        assert!(
            eventually(SOON, is_in_use).await,
            "{}",
            served.server.stderr()
        );
    }
    let both = HashSet::from(origins);
    assert!(load.stop().await.iter().all(|seen| *seen == both));
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_no_swap_however_fast_mixes_two_documents() {
    let (texts, origins) = two_documents();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("a.db"), ClockOffset::default()).unwrap();
    let server = in_process(Some(&texts[0]), Arc::new(store)).await;
    let load = Load::start(&server.client(), &origins);
    for swap in 0..2_000 {
        let text = texts[swap % 2].clone();
        let name = "policy.yaml".to_owned();
        server.swap(Policy::compile(&[Source { name, text }]).unwrap());
        tokio::task::yield_now().await;
    }
    let both = HashSet::from(origins);
    assert!(load.stop().await.iter().all(|seen| *seen == both));
}
