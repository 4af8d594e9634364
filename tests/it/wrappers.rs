//! Tools that call other tools, over gRPC and on both stores: whatever is asked, shown, stored and claimed is the call
//! that they make, and what nobody can see through waits for a person.

use assent::pb;
use assent::policy::{Policy, Source};
use tonic::{Code, Status};

use crate::support::server::{InProcess, in_process};
use crate::support::stores::{Home, Homes};
use crate::wire::{self, Client};

const WRAPPERS: &str = "
wrappers: [{tool: call_tool, name: /tool, server: /server, arguments: /arguments}]
tools: [{tool: github__list_repos, server: github, annotations: {readOnlyHint: true}}]
";

/// Names a tool that the catalogue makes read-only.
const LIST: &str = r#"{"server":"github","tool":"list_repos","arguments":{"org":"dev"}}"#;
/// Names one of which nobody has said anything.
const WIPE: &str = r#"{"server":"github","tool":"wipe","arguments":{"repo":"a"}}"#;
/// Names the same, and no object as its arguments.
const DOUBTFUL: &str = r#"{"server":"github","tool":"wipe","arguments":"a"}"#;

struct World {
    server: InProcess,
    client: Client,
}

async fn on_both_stores(policy: &str, body: impl AsyncFn(World)) {
    let policy = format!("{WRAPPERS}{policy}");
    for home in [Home::Sqlite, Home::Redis] {
        let homes = Homes::start(home).await;
        let server = in_process(Some(&policy), homes.fresh().await).await;
        let client = wire::connect(server.address()).await;
        body(World { server, client }).await;
    }
}

impl World {
    fn swap_policy(&self, text: &str) {
        let source = Source {
            name: "policy.yaml".to_owned(),
            text: text.to_owned(),
        };
        self.server.swap(Policy::compile(&[source]).unwrap());
    }

    async fn try_decide(&self, call: pb::ToolCall) -> Result<pb::DecideResponse, Status> {
        let request = pb::DecideRequest {
            scope: Some(scope()),
            action: Some(pb::decide_request::Action::Call(call)),
            ..Default::default()
        };
        let decided = self.client.clone().decide(request).await?;
        Ok(decided.into_inner())
    }

    async fn decide(&self, call: pb::ToolCall) -> pb::DecideResponse {
        self.try_decide(call).await.unwrap()
    }

    /// Asks about a call that suspends, and approves it.
    async fn approved(&self, call: pb::ToolCall) -> pb::Suspension {
        let decided = self.decide(call).await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
        wire::approve(&self.client, &decided.suspension.unwrap().id).await
    }

    async fn claim(&self, suspension: &pb::Suspension) -> Result<pb::ClaimResponse, Status> {
        let request = pb::ClaimRequest {
            suspension_id: suspension.id.clone(),
            attempt_id: "w1".to_owned(),
            ..Default::default()
        };
        let claimed = self.client.clone().claim(request).await?;
        Ok(claimed.into_inner())
    }

    async fn edit(&self, suspension: &pb::Suspension, json: &str) -> Result<(), Status> {
        use pb::resume_request::Answer;
        let mut request = wire::answer(&suspension.id, true);
        let Some(Answer::Approval(approval)) = &mut request.answer else {
            panic!("an approval")
        };
        approval.edited_arguments_json = json.to_owned();
        self.client.clone().resume(request).await.map(|_| ())
    }

    /// The effect, the rule that decided, and whether the call was seen through.
    async fn answer(&self, call: pb::ToolCall) -> (pb::Effect, String, bool) {
        let decided = self.decide(call).await;
        let resolved = decided.warnings.is_empty();
        assert!(resolved || decided.risk_class() == pb::RiskClass::Destructive);
        (decided.effect(), decided.matched_rule, resolved)
    }
}

fn scope() -> pb::Scope {
    pb::Scope {
        session_id: "s1".to_owned(),
        run_id: "r1".to_owned(),
        ..Default::default()
    }
}

fn wrapper(call_id: &str, json: &str) -> pb::ToolCall {
    call(call_id, "call_tool", json)
}

fn call(call_id: &str, tool: &str, json: &str) -> pb::ToolCall {
    pb::ToolCall {
        call_id: call_id.to_owned(),
        tool: tool.to_owned(),
        origin: pb::Origin::Code.into(),
        arguments_json: json.to_owned(),
        ..Default::default()
    }
}

fn read_only() -> Option<pb::Annotations> {
    Some(pb::Annotations {
        read_only_hint: Some(true),
        ..Default::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_sees_the_catalogues_title_and_not_the_callers() {
    let policy = "\
wrappers: [{tool: call_tool, name: /tool, server: /server, arguments: /arguments}]
tools: [{tool: github__wipe, annotations: {title: Wipe a repository, destructiveHint: true}}]
";
    on_both_stores("", async |world| {
        world.swap_policy(policy);
        let harmless = Some(pb::Annotations {
            title: "Look it up".to_owned(),
            ..read_only().unwrap()
        });
        for asked in [
            pb::ToolCall {
                annotations: harmless.clone(),
                ..call("c1", "github__wipe", "{}")
            },
            pb::ToolCall {
                annotations: harmless,
                ..wrapper("c2", WIPE)
            },
        ] {
            let suspension = world.decide(asked).await.suspension.unwrap();
            assert_eq!(suspension.title, "Wipe a repository");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_shown_stored_and_claimed_is_the_target() {
    on_both_stores("", async |world| {
        let target = pb::ToolCall {
            server: "github".to_owned(),
            annotations: Some(pb::Annotations {
                title: "Wipe a repository".to_owned(),
                destructive_hint: Some(true),
                ..Default::default()
            }),
            ..call("ignored", "github__wipe", r#"{"repo": "a"}"#)
        };
        let decided = world
            .decide(pb::ToolCall {
                target: Some(Box::new(target.clone())),
                annotations: read_only(),
                ..wrapper("c1", WIPE)
            })
            .await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
        assert_eq!(decided.judged_tool, "github__wipe");
        assert_eq!(decided.selected_by, "@destructive");
        assert_eq!(decided.warnings, Vec::<String>::new());

        let suspension = decided.suspension.unwrap();
        let stored = suspension.call.clone().unwrap();
        assert_eq!(
            stored,
            pb::ToolCall {
                call_id: "c1".to_owned(),
                ..target.clone()
            }
        );
        assert_eq!(suspension.title, "Wipe a repository");
        // What an ordinary call of the target has.
        let direct = world
            .decide(pb::ToolCall {
                call_id: "c2".to_owned(),
                ..target
            })
            .await;
        assert_eq!(decided.arguments_digest, direct.arguments_digest);
        assert_eq!(suspension.arguments_digest, direct.arguments_digest);

        wire::approve(&world.client, &suspension.id).await;
        let claimed = world.claim(&suspension).await.unwrap();
        assert_eq!(claimed.arguments_json, r#"{"repo": "a"}"#);
        assert_eq!(claimed.arguments_digest, direct.arguments_digest);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_selectors_see_the_target() {
    let policy = "
never: [github__list_repos, call_tool]
rules:
  - {id: wrapper, tools: [call_tool], decision: deny}
  - {id: prod, tools: ['github__*'], when: args.org == 'prod', decision: deny}
default: allow
";
    on_both_stores(policy, async |world| {
        use pb::Effect::{Allow, Deny, Suspend};
        let rule = str::to_owned;
        let prod = LIST.replace("dev", "prod");
        assert_eq!(
            world.answer(wrapper("c1", LIST)).await,
            (Allow, rule("default"), true)
        );
        assert_eq!(
            world.answer(wrapper("c2", &prod)).await,
            (Deny, rule("prod"), true)
        );
        // A condition about the arguments fails where the target has none, and so denies.
        assert_eq!(
            world.answer(wrapper("c3", WIPE)).await,
            (Deny, rule("prod"), true)
        );
        // Unannotated, and so destructive: as a call of its own it would be a write.
        let other = LIST.replace("github", "gitlab");
        let decided = world.decide(wrapper("c4", &other)).await;
        assert_eq!(
            (decided.effect(), decided.risk_class()),
            (Suspend, pb::RiskClass::Destructive)
        );
        // Nothing is named: the wrapper's own id has a rule.
        assert_eq!(
            world.answer(wrapper("c5", "{}")).await,
            (Deny, rule("wrapper"), false)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_exempts_what_is_not_known_for_sure() {
    let policy = "
selectors: []
never: ['*']
rules:
  - {id: never-gitlab, tools: ['gitlab__*'], decision: deny, reason: not there}
  - {id: yes, tools: ['*'], decision: allow}
";
    on_both_stores(policy, async |world| {
        assert_eq!(
            world.answer(wrapper("c1", WIPE)).await,
            (pb::Effect::Allow, "yes".to_owned(), true)
        );
        let decided = world.decide(wrapper("c2", DOUBTFUL)).await;
        assert_eq!(decided.effect(), pb::Effect::Suspend);
        assert_eq!(decided.risk_class(), pb::RiskClass::Destructive);
        assert_eq!(decided.judged_tool, "github__wipe");
        assert_eq!(decided.selected_by, "");
        let why = "what `call_tool` would run is not known for sure, so it is destructive and needs review: \
                   the arguments that it passes on are no object";
        assert_eq!(decided.warnings, [why]);
        assert_eq!(decided.reason, why);
        let suspension = decided.suspension.unwrap();
        assert_eq!(suspension.reason, why);
        assert_eq!(suspension.call.unwrap().arguments_json, DOUBTFUL);

        // A target that is not needed is a doubt too, and its annotations count for nothing.
        let odd = pb::ToolCall {
            annotations: read_only(),
            target: Some(Box::new(call("", "client.a", "{}"))),
            ..call("c3", "client.a", "{}")
        };
        let classified = world
            .client
            .clone()
            .classify(pb::ClassifyRequest {
                call: Some(odd.clone()),
            })
            .await
            .unwrap()
            .into_inner();
        assert_eq!(classified.risk_class(), pb::RiskClass::Destructive);
        assert!(classified.approval_required);
        assert_eq!(classified.selected_by, "");
        assert_eq!(classified.judged_tool, "client.a");
        assert!(classified.warnings[0].ends_with("`target` is set, and it is no wrapper"));
        assert_eq!(
            world.answer(odd).await,
            (pb::Effect::Suspend, "yes".to_owned(), false)
        );

        // A deny still denies, and a program is still told to call the tool directly.
        let gitlab = DOUBTFUL.replace("github", "gitlab");
        assert_eq!(
            world.answer(wrapper("c4", &gitlab)).await,
            (pb::Effect::Deny, "never-gitlab".to_owned(), false)
        );
        let decided = world
            .decide(pb::ToolCall {
                in_program: true,
                ..wrapper("c5", DOUBTFUL)
            })
            .await;
        assert_eq!(decided.kind, "approval_required_in_program");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_a_rule_asks_reads_what_is_doubtful() {
    let policy = "rules: [{id: careful, tools: ['*'], decision: ask, reason: everything is asked}]";
    on_both_stores(policy, async |world| {
        let decided = world.decide(wrapper("c1", DOUBTFUL)).await;
        assert!(
            decided
                .reason
                .starts_with("everything is asked; what `call_tool` would run"),
            "{}",
            decided.reason
        );
        let clear = world.decide(wrapper("c2", WIPE)).await;
        assert_eq!(clear.reason, "everything is asked");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_for_sure_stays_so_when_it_is_claimed() {
    on_both_stores("", async |world| {
        let approved = world.approved(wrapper("c1", DOUBTFUL)).await;
        // A tool without annotations would be a write, and such a rule would not touch it.
        world.swap_policy(
            "rules: [{id: worst, tools: ['github__*'], classes: [destructive], decision: deny}]",
        );
        let refused = world.claim(&approved).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "POLICY_DENIED");
        // Review is needed whatever `never` says, by whoever the matching rule wants.
        world.swap_policy(
            "never: ['*']\nselectors: []\n\
             rules: [{id: two, tools: ['*'], decision: allow, approval: {approvers: {quorum: 2}}}]",
        );
        let refused = world.claim(&approved).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "APPROVAL_INSUFFICIENT");
        world.swap_policy("never: ['*']\nselectors: []\n");
        let claimed = world.claim(&approved).await.unwrap();
        assert_eq!(claimed.arguments_json, DOUBTFUL);
        assert_eq!(
            claimed.arguments_digest, approved.arguments_digest,
            "over the id that was judged"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_judged_as_the_target_and_cannot_name_another_one() {
    let policy = "rules: [{id: prod, tools: [github__wipe], when: args.repo == 'prod', classes: [destructive], decision: deny}]";
    on_both_stores(policy, async |world| {
        let decided = world.decide(wrapper("c1", WIPE)).await;
        let target = decided.suspension.unwrap();
        let refused = world.edit(&target, r#"{"repo":"prod"}"#).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "POLICY_DENIED");
        world.edit(&target, r#"{"repo":"b"}"#).await.unwrap();
        let claimed = world.claim(&target).await.unwrap();
        assert_eq!(claimed.arguments_json, r#"{"repo":"b"}"#);

        world.swap_policy(WRAPPERS);
        let decided = world.decide(wrapper("c2", DOUBTFUL)).await;
        let doubtful = decided.suspension.unwrap();
        let refused = world.edit(&doubtful, LIST).await.unwrap_err();
        assert_eq!(
            (refused.code(), wire::reason(&refused).as_str()),
            (Code::InvalidArgument, "INVALID_REQUEST")
        );
        let pending = wire::get(&world.client, &doubtful.id).await;
        assert_eq!(pending.status(), pb::SuspensionStatus::Pending);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_id_stands_for_what_is_judged() {
    on_both_stores("", async |world| {
        let first = world.decide(wrapper("c1", WIPE)).await.suspension.unwrap();
        // The same target by another way, or spelled in another way, is the same call.
        let direct = pb::ToolCall {
            server: "github".to_owned(),
            ..call("c1", "github__wipe", r#"{"repo":"a"}"#)
        };
        let spaced = WIPE.replace(':', " : ");
        for same in [direct, wrapper("c1", &spaced)] {
            let again = world.decide(same).await.suspension.unwrap();
            assert_eq!(again.id, first.id);
        }
        // Other arguments of the target, another target, or one that is not known for sure are not.
        let others = [
            WIPE.replace("\"a\"", "\"b\""),
            LIST.replace("list_repos", "x"),
        ];
        for other in others.iter().map(String::as_str).chain([DOUBTFUL]) {
            let refused = world.try_decide(wrapper("c1", other)).await.unwrap_err();
            assert_eq!(wire::reason(&refused), "CALL_ID_REUSED", "{other}");
        }
        // Nor is the call in whose place a doubtful one is judged, with the very same arguments.
        world.decide(wrapper("c2", DOUBTFUL)).await;
        let direct = pb::ToolCall {
            server: "github".to_owned(),
            ..call("c2", "github__wipe", DOUBTFUL)
        };
        let refused = world.try_decide(direct).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "CALL_ID_REUSED");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_has_become_a_wrapper_is_claimed_as_one() {
    on_both_stores("", async |world| {
        world.swap_policy("version: 1");
        let approved = world.approved(wrapper("c1", WIPE)).await;
        assert_eq!(approved.call.clone().unwrap().tool, "call_tool");
        let deny = "rules: [{id: wipe, tools: [github__wipe], decision: deny}]";
        world.swap_policy(&format!("{WRAPPERS}{deny}"));
        let refused = world.claim(&approved).await.unwrap_err();
        assert_eq!(wire::reason(&refused), "POLICY_DENIED");
        world.swap_policy(WRAPPERS);
        let claimed = world.claim(&approved).await.unwrap();
        assert_eq!(claimed.arguments_json, WIPE);
    })
    .await;
}
