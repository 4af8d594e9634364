//! Answers as proto3 JSON, by the contract's own descriptors: lowerCamelCase names, enum names, RFC 3339 times, unset
//! and default fields left out (protobuf's "ProtoJSON Format").

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::text;
use crate::pb;

/// Why an answer could not be put into JSON: a fault of this program.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The embedded descriptors are broken.
    #[error("the contract's descriptors cannot be read: {0}")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    /// The embedded descriptors lack a message.
    #[error("the contract has no message `{0}`")]
    UnknownMessage(String),
    /// The message and its descriptor disagree.
    #[error("the answer does not fit the contract: {0}")]
    Mismatch(#[from] prost::DecodeError),
    /// The message could not be written.
    #[error("the answer cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
}

/// One line of JSON, without a line break at its end; `name` is the message's name in `assent.v1`.
///
/// It holds no character that a terminal would obey: such are written as `\u` escapes.
pub(super) fn to_json<M: Message>(name: &str, message: &M) -> Result<String, JsonError> {
    let dynamic = dynamic(name, message)?;
    Ok(text::json_text(&serde_json::to_string(&dynamic)?))
}

/// The same as a part of a larger document.
pub(super) fn to_value<M: Message>(
    name: &str,
    message: &M,
) -> Result<serde_json::Value, JsonError> {
    Ok(serde_json::to_value(dynamic(name, message)?)?)
}

fn dynamic<M: Message>(name: &str, message: &M) -> Result<DynamicMessage, JsonError> {
    let pool = DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET)?;
    let full_name = format!("assent.v1.{name}");
    let descriptor = pool
        .get_message_by_name(&full_name)
        .ok_or(JsonError::UnknownMessage(full_name))?;
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(message)?;
    Ok(dynamic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_enums_and_times_are_as_protobuf_has_them() {
        let suspension = pb::Suspension {
            id: "s-1".to_owned(),
            status: pb::SuspensionStatus::Pending.into(),
            expire_time: Some(prost_types::Timestamp {
                seconds: 1_767_348_000,
                nanos: 0,
            }),
            call: Some(pb::ToolCall {
                tool: "t".to_owned(),
                arguments_json: "{\"a\":\"\u{202e}\"}".to_owned(),
                annotations: Some(pb::Annotations {
                    read_only_hint: Some(false),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            version: 7,
            ..Default::default()
        };
        assert_eq!(
            to_json("Suspension", &suspension).unwrap(),
            concat!(
                r#"{"id":"s-1","status":"SUSPENSION_STATUS_PENDING","call":{"tool":"t","#,
                r#""annotations":{"readOnlyHint":false},"argumentsJson":"{\"a\":\"\u202e\"}"},"#,
                r#""expireTime":"2026-01-02T10:00:00Z","version":"7"}"#
            )
        );
    }

    #[test]
    fn every_answer_that_is_printed_has_its_message() {
        for name in [
            "ClassifyResponse",
            "DecideResponse",
            "ListSuspensionsResponse",
            "Suspension",
            "ResumeResponse",
            "CancelResponse",
            "ClaimResponse",
        ] {
            assert_eq!(to_json(name, &()).unwrap(), "{}", "{name}");
        }
        assert!(matches!(
            to_json("Nothing", &()),
            Err(JsonError::UnknownMessage(_))
        ));
    }
}
