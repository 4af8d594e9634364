//! What every home of suspensions does (S10): one body per behaviour, run on each home.
//!
//! The bodies are in `store_contract/`; none knows which store it has. Time is moved, never waited for,
//! and each body has a tenant of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may fail by panicking"
)]

mod changing;
mod closing;
mod fixture;
mod grants;
mod listing;
mod opening;
mod passing_of_time;

use assent::store::clock::ClockOffset;

use self::fixture::Fixture;
use super::support::stores::{Home, Homes};

/// Runs each body on each home: a body is `async fn(&Fixture)`.
macro_rules! on_every_home {
    ($($part:ident: [$($behaviour:ident),+ $(,)?])+) => {
        mod sqlite {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    super::run(super::Home::Sqlite, super::$part::$behaviour).await;
                }
            )+)+
        }

        mod redis {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    super::run(super::Home::Redis, super::$part::$behaviour).await;
                }
            )+)+
        }
    };
}

async fn run(home: Home, behaviour: impl AsyncFn(&Fixture)) {
    let clock = ClockOffset::default();
    let homes = Homes::start(home).await;
    let store = homes.fresh_at(clock.clone()).await;
    behaviour(&Fixture::new(store, clock)).await;
}

on_every_home! {
    opening: [
        a_new_suspension_reads_back_whole,
        the_same_key_gives_the_same_suspension,
        racing_openings_with_one_key_make_one_suspension,
        a_key_holds_for_one_run_and_kind_of_call_only,
        the_same_opening_written_twice_is_one,
        openings_without_a_key_are_separate,
        a_limit_is_exact_under_fifty_racing_openings,
        a_limit_counts_what_is_open_in_the_session_or_else_in_the_run,
        a_key_is_found_in_a_full_session,
        an_id_in_no_partition_is_unknown,
        openings_and_changes_are_heard,
        a_store_that_answers_is_healthy,
    ]
    changing: [
        every_state_reads_back_whole,
        of_racing_changes_one_is_written,
        a_change_of_what_is_not_there_is_stale,
        changes_are_written_together_or_not_at_all,
        a_repeated_operation_is_done_and_changes_nothing_twice,
        a_commit_at_its_last_moment_is_late,
    ]
    closing: [
        an_ended_run_of_a_session_takes_nothing_new,
        an_ended_run_without_a_session_takes_nothing_new,
        a_run_ended_in_any_session_takes_nothing_new,
        an_ended_session_takes_nothing_new,
        an_end_is_said_before_a_limit_and_after_a_key,
        an_end_is_forgotten_after_its_retention,
        an_end_that_is_written_again_is_remembered_no_shorter,
        what_would_be_answered_or_claimed_after_an_end_is_refused,
        an_end_needs_every_open_record,
        an_end_is_not_fooled_by_a_namesake_in_another_session,
        an_end_that_races_with_openings_leaves_nothing_open,
    ]
    grants: [
        a_grant_reads_back_whole_and_is_found_by_its_key,
        a_grant_is_given_with_its_approval_or_not_at_all,
        a_grant_answers_after_what_is_recorded_or_over_and_before_a_limit,
        a_grant_ends_with_time,
        a_revoked_grant_covers_nothing_and_ending_it_again_changes_nothing,
        of_grants_with_one_key_the_last_one_holds,
        an_ended_session_ends_its_grants_and_an_ended_run_does_not,
        a_list_of_grants_has_those_that_live_in_order_of_their_end,
        grants_that_race_with_a_revocation_are_over_after_it,
        a_grant_goes_after_its_retention,
    ]
    listing: [
        a_list_is_ordered_by_deadline_and_id,
        pages_miss_nothing_and_double_nothing_while_records_settle,
        tenants_do_not_see_each_other,
        sessions_do_not_see_each_other,
        runs_of_one_name_in_two_sessions_do_not_see_each_other,
        names_are_told_apart_wherever_they_are_cut,
        members_are_the_open_records_of_one_partition,
        members_of_a_large_group_are_read_in_part_and_counted_whole,
    ]
    passing_of_time: [
        only_what_is_due_is_swept_and_the_soonest_first,
        a_sweep_takes_no_more_than_its_limit_and_says_when_there_is_more,
        a_settled_suspension_is_not_due_again,
        a_claim_is_due_when_its_lease_ends,
        what_is_settled_early_is_kept_until_its_deadline_and_retention,
        what_changed_late_is_kept_for_the_retention_after_the_change,
        what_is_claimed_or_in_doubt_is_never_collected,
        an_approval_that_nobody_used_is_collected_too,
        a_key_goes_with_its_record,
    ]
}
