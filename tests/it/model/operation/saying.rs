//! What an answer says, in the words of each kind.

use assent::pb;
use assent::pb::resume_request::Answer as Said;

use super::Says;

impl Says {
    pub(super) fn answer(self, kind: pb::SuspensionKind) -> Option<Said> {
        let approval = |approved: Option<bool>| pb::Approval {
            approved,
            ..Default::default()
        };
        let session = pb::GrantScope::Session.into();
        let said = match self {
            Self::Nothing => return None,
            Self::Undecided => approval(None),
            Self::OtherKind if kind == pb::SuspensionKind::Approval => {
                return Says::Yes.answer(pb::SuspensionKind::SignIn);
            }
            Self::OtherKind => approval(Some(true)),
            _ if kind != pb::SuspensionKind::Approval => return Some(self.to_a_wait(kind)),
            Self::Yes | Self::Misfit(_) => approval(Some(true)),
            Self::YesWithAReason => pb::Approval {
                reason: "fine".to_owned(),
                ..approval(Some(true))
            },
            Self::YesForTheSession => pb::Approval {
                grant_scope: session,
                ..approval(Some(true))
            },
            Self::No => pb::Approval {
                reason: "not today".to_owned(),
                ..approval(Some(false))
            },
            Self::NoWithAGrant => pb::Approval {
                grant_scope: session,
                ..approval(Some(false))
            },
            Self::Edited(cents) => pb::Approval {
                edited_arguments_json: format!(r#"{{"cents":{cents}}}"#),
                ..approval(Some(true))
            },
            Self::YesSpelledOtherwise => pb::Approval {
                edited_arguments_json: r#"{ "cents": 5.0 }"#.to_owned(),
                ..approval(Some(true))
            },
            Self::EditedWithoutCents => pb::Approval {
                edited_arguments_json: r#"{"other":1}"#.to_owned(),
                ..approval(Some(true))
            },
            Self::EditedBadly => pb::Approval {
                edited_arguments_json: "[1]".to_owned(),
                ..approval(Some(true))
            },
            Self::EditedWithAGrant => pb::Approval {
                edited_arguments_json: r#"{"cents":5}"#.to_owned(),
                grant_scope: session,
                ..approval(Some(true))
            },
        };
        Some(Said::Approval(said))
    }

    /// Yes is the first of each list, no the second, and a misfit one of the rest.
    fn to_a_wait(self, kind: pb::SuspensionKind) -> Said {
        let choice = match self {
            Self::Misfit(number) => 2 + usize::from(number) % 3,
            Self::No | Self::NoWithAGrant => 1,
            _ => 0,
        };
        let otherwise = matches!(self, Self::YesSpelledOtherwise);
        match kind {
            pb::SuspensionKind::Question => {
                let pairs: &[(&str, &str)] = [
                    &[("which", "a"), ("why", "so")] as &[_],
                    &[("which", "b"), ("why", "")],
                    &[("which", "c"), ("why", "so")],
                    &[("which", "a")],
                    &[("which", "a"), ("why", "so"), ("when", "now")],
                ][choice];
                let pairs = pairs.iter();
                Said::Question(pb::QuestionAnswer {
                    answers: pairs
                        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                        .collect(),
                })
            }
            pb::SuspensionKind::External => {
                let texts = [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":"1"}"#, "{}", "nothing"];
                let text = if otherwise {
                    r#"{ "n": 1.0 }"#
                } else {
                    texts[choice]
                };
                Said::External(pb::ExternalAnswer {
                    payload_json: text.to_owned(),
                })
            }
            pb::SuspensionKind::ClientTool => {
                use pb::client_tool_answer::Result as End;
                let result = match choice {
                    0 if otherwise => Some(End::ResultJson(r#"{"ok": true}"#.to_owned())),
                    0 => Some(End::ResultJson(r#"{"ok":true}"#.to_owned())),
                    1 => Some(End::Error("no camera".to_owned())),
                    2 => Some(End::Error(String::new())),
                    3 => Some(End::ResultJson("nothing".to_owned())),
                    _ => None,
                };
                Said::ClientTool(pb::ClientToolAnswer { result })
            }
            pb::SuspensionKind::SignIn => {
                let (connected, denied): (&[&str], &[&str]) = [
                    (&["mail", "disk"] as &[_], &[] as &[_]),
                    (&["mail"], &["disk"]),
                    (&["mail"], &[]),
                    (&["mail", "disk"], &["disk"]),
                    (&["mail", "mail"], &["disk"]),
                ][choice];
                let texts = |ids: &[&str]| -> Vec<String> {
                    let ids = ids.iter().map(|id| (*id).to_owned());
                    if otherwise {
                        ids.rev().collect()
                    } else {
                        ids.collect()
                    }
                };
                Said::SignIn(pb::SignInAnswer {
                    connected: texts(connected),
                    denied: texts(denied),
                })
            }
            pb::SuspensionKind::Approval | pb::SuspensionKind::Unspecified => {
                unreachable!("an approval is answered elsewhere")
            }
        }
    }
}
