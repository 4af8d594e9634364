//! Long random sequences of operations: SQLite, Redis and a plain model written from semantics.md answer alike.
//!
//! A failure prints the seed and the shortest sequence that was found to fail. `ASSENT_MODEL_SEED` takes the seed,
//! `ASSENT_MODEL_CASES` how many sequences are run (40 unless it is set), `ASSENT_MODEL_SHRINKS` how often a failing
//! one is tried shorter.

mod home;
mod operation;
mod plain;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use assent::policy::Policy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use crate::support::stores::{Home as Kind, Homes};

use self::home::{Home, policies};
use self::operation::{Call, Operation, operations};
use self::plain::{Answer, Plain};

/// How many sequences are run where nothing else is said.
const CASES: u32 = 40;

/// How long a sequence is, at most.
const LONGEST: usize = 120;

#[test]
fn both_stores_answer_as_the_model_does() {
    let number = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect(name))
    };
    let seed = number("ASSENT_MODEL_SEED", 2026);
    let cases = number("ASSENT_MODEL_CASES", CASES);
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config {
            cases,
            max_shrink_iters: number("ASSENT_MODEL_SHRINKS", 500),
            failure_persistence: None,
            ..Config::default()
        },
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    let runtime = Runtime::new().unwrap();
    let homes = runtime.block_on(async {
        [
            Homes::start(Kind::Sqlite).await,
            Homes::start(Kind::Redis).await,
        ]
    });
    let policies = policies();
    let met = RefCell::new(BTreeSet::new());
    let outcome = runner.run(&operations(LONGEST), |operations| {
        runtime
            .block_on(compare(&operations, &homes, &policies, &met))
            .map_err(TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("with ASSENT_MODEL_SEED={seed}: {error}");
    }
    // A test that never comes to what it is about would pass as well.
    if cases >= CASES {
        let met = met.into_inner();
        let missing: Vec<_> = TO_BE_MET
            .iter()
            .filter(|what| !met.contains(**what))
            .collect();
        assert!(missing.is_empty(), "never met: {missing:?}, but {met:?}");
    }
}

/// What the sequences of a whole run come to at least once.
const TO_BE_MET: &[&str] = &[
    "ACCESS_DENIED",
    "ALREADY_CLAIMED",
    "ALREADY_RESOLVED",
    "APPROVAL_INSUFFICIENT",
    "APPROVAL_STALE",
    "APPROVER_NOT_ELIGIBLE",
    "CALL_ID_REUSED",
    "DIGEST_MISMATCH",
    "GRANT_NOT_FOUND",
    "INVALID_REQUEST",
    "IN_DOUBT",
    "KIND_MISMATCH",
    "NOT_APPROVED",
    "NOT_CLAIMED",
    "POLICY_DENIED",
    "SELF_APPROVAL",
    "SUSPENSION_CANCELLED",
    "SUSPENSION_EXPIRED",
    "SUSPENSION_NOT_FOUND",
    "TOO_MANY_PENDING",
    "a duplicate",
    "a forced claim",
    "a grant that lets through",
    "a list of several",
    "a vote",
    "access_denied",
    "approval_required_in_program",
    "cancelled",
    "denied",
    "expired",
    "suspended",
    "suspension_expired",
    "voided",
];

/// Runs a sequence on both stores and the model, and tells the first answer that differs.
async fn compare(
    operations: &[Operation],
    homes: &[Homes; 2],
    policies: &[Arc<Policy>],
    met: &RefCell<BTreeSet<String>>,
) -> Result<(), String> {
    let revisions = policies.iter().map(|policy| policy.revision().to_owned());
    let mut plain = Plain::new(revisions.collect());
    let mut sqlite = Home::fresh(&homes[0], Arc::clone(&policies[0])).await;
    let mut redis = Home::fresh(&homes[1], Arc::clone(&policies[0])).await;
    for (number, operation) in operations.iter().enumerate() {
        let call = operation.call(&plain);
        let expected = answer(&mut plain, &call);
        note(&expected, &mut met.borrow_mut());
        for (name, home) in [("SQLite", &mut sqlite), ("Redis", &mut redis)] {
            let about = |what: String| format!("{name}, operation {number} {operation:?}: {what}");
            let answer = home.ask(&call, &expected, policies).await.map_err(about)?;
            if answer != expected {
                let differs = format!("\nanswers {answer:#?}\nthe model has {expected:#?}");
                return Err(about(differs));
            }
        }
    }
    if sqlite.is_in_time() && redis.is_in_time() {
        Ok(())
    } else {
        Err("the test took so long that its own time counts".to_owned())
    }
}

fn answer(plain: &mut Plain, call: &Call) -> Answer {
    match call.clone() {
        Call::Decide(request) => plain.decide(request),
        Call::Suspend(request) => plain.suspend(request),
        Call::Resume(request) => plain.resume(request),
        Call::Claim(request) => plain.claim(request),
        Call::Complete(request) => plain.complete(request),
        Call::Cancel(request) => plain.cancel(request),
        Call::Get(request) => plain.get(request),
        Call::List(request) => plain.list(&request),
        Call::ListGrants(request) => plain.list_grants(&request),
        Call::Revoke(request) => plain.revoke_grant(&request),
        Call::Advance(ticks) => plain.advance(ticks),
        Call::Sweep => plain.sweep(),
        Call::SwapPolicy(policy) => plain.swap_policy(policy),
    }
}

/// What the model came to.
fn note(answer: &Answer, met: &mut BTreeSet<String>) {
    use assent::pb::ResumeOutcome;
    let what = match answer {
        Answer::Refused(refused) => refused.reason.as_str(),
        Answer::Decided(response) if !response.grant_id.is_empty() => "a grant that lets through",
        Answer::Decided(response) => response.kind.as_str(),
        Answer::Resumed(response) => match response.outcome() {
            ResumeOutcome::Duplicate => "a duplicate",
            ResumeOutcome::VoteRecorded => "a vote",
            ResumeOutcome::Accepted | ResumeOutcome::Unspecified => return,
        },
        Answer::Claimed(response) => match response.suspension.as_ref().unwrap().claims.last() {
            Some(claim) if claim.forced => "a forced claim",
            Some(_) | None => return,
        },
        Answer::Cancelled(response) if response.voided_count > 0 => "voided",
        Answer::Listed(all) if all.len() > 1 => "a list of several",
        Answer::Suspension(_)
        | Answer::Cancelled(_)
        | Answer::Listed(_)
        | Answer::Grants(_)
        | Answer::Grant(_)
        | Answer::Done => return,
    };
    met.insert(what.to_owned());
}
