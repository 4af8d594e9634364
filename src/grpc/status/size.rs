//! How large a status may be, and what is cut so that it is not larger.
//!
//! Of the 6 KiB that a status may take in trailers: the message, percent-encoded, has up to
//! [`MAX_MESSAGE`]; it stands in the details once more, as the details must repeat it, beside either a bad
//! field (as much again) or the winning suspension ([`MAX_TEXTS`] and its frame); and Base64 makes the
//! details a third longer.

use crate::pb;

/// The most bytes of a message, percent-encoded as gRPC has it.
const MAX_MESSAGE: usize = 768;

/// The most bytes of one text of a winning suspension.
const MAX_TEXT: usize = 512;

/// The most bytes of all its texts.
const MAX_TEXTS: usize = 4 * MAX_TEXT;

/// What a list costs beside the bytes of each of its texts.
const ENTRY_FRAME: usize = 8;

const CUT: char = '…';

/// Cuts a message so that it fits once it is percent-encoded; a cut one ends in `…`.
pub(super) fn cut_message(message: &str) -> String {
    let room = MAX_MESSAGE - encoded_len(CUT);
    let mut len = 0;
    let mut fits = 0;
    for (at, c) in message.char_indices() {
        len += encoded_len(c);
        if len <= room {
            fits = at + c.len_utf8();
        } else if len > MAX_MESSAGE {
            let mut cut = message.get(..fits).unwrap_or_default().to_owned();
            cut.push(CUT);
            return cut;
        }
    }
    message.to_owned()
}

/// At most this many bytes, whatever set an implementation of gRPC percent-encodes.
fn encoded_len(c: char) -> usize {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | ':' | '-' | '_') {
        1
    } else {
        3 * c.len_utf8()
    }
}

/// Cuts the texts of a resolution. Who and why come first; roles, which can be many, come last.
pub(super) fn trim_resolution(winner: pb::Suspension) -> pb::Suspension {
    let Some(resolution) = winner.resolution else {
        return winner;
    };
    let pb::Resolution {
        by,
        by_roles,
        resolve_time,
        approved,
        reason,
        answers,
        payload_json,
        tool_result_json,
        tool_error,
        connected,
        denied,
        edited_arguments_json,
        grant_id,
        kind,
        message_for_model,
        retryable,
    } = resolution;
    let mut room = Room(MAX_TEXTS);
    let resolution = pb::Resolution {
        by: room.text(by),
        resolve_time,
        approved,
        kind: room.text(kind),
        grant_id: room.text(grant_id),
        retryable,
        reason: room.text(reason),
        edited_arguments_json: room.text(edited_arguments_json),
        payload_json: room.text(payload_json),
        tool_result_json: room.text(tool_result_json),
        tool_error: room.text(tool_error),
        connected: room.list(connected),
        denied: room.list(denied),
        answers: answers
            .into_iter()
            .map_while(|(key, answer)| Some((room.entry(key)?, room.entry(answer)?)))
            .collect(),
        message_for_model: room.text(message_for_model),
        by_roles: room.list(by_roles),
    };
    pb::Suspension {
        resolution: Some(resolution),
        ..winner
    }
}

/// The bytes that are left for texts.
struct Room(usize);

impl Room {
    fn text(&mut self, mut text: String) -> String {
        let most = MAX_TEXT.min(self.0);
        if text.len() > most {
            let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or_default());
        }
        self.0 -= text.len();
        text
    }

    /// One text of many; none when there is no room left.
    fn entry(&mut self, text: String) -> Option<String> {
        self.0 = self.0.checked_sub(ENTRY_FRAME)?;
        Some(self.text(text))
    }

    fn list(&mut self, texts: Vec<String>) -> Vec<String> {
        let texts = texts.into_iter();
        texts.map_while(|text| self.entry(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_fits_is_left_alone() {
        for message in ["", "`call.tool`: must not be empty", "é"] {
            assert_eq!(cut_message(message), message);
        }
        let plain = "x".repeat(MAX_MESSAGE);
        assert_eq!(cut_message(&plain), plain);
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_says_so() {
        for c in ['x', ' ', 'é', '退', '🦀', '\u{0}'] {
            let long: String = std::iter::repeat_n(c, 1 + MAX_MESSAGE).collect();
            let cut = cut_message(&long);
            let encoded: usize = cut.chars().map(encoded_len).sum();
            assert!(
                (MAX_MESSAGE - 30..=MAX_MESSAGE).contains(&encoded),
                "{c:?} {encoded}"
            );
            let kept = cut.strip_suffix(CUT).unwrap();
            assert!(!kept.is_empty() && long.starts_with(kept));
        }
    }

    #[test]
    fn texts_are_cut_between_characters_one_by_one_and_together() {
        let mut room = Room(MAX_TEXTS);
        assert_eq!(room.text("退".repeat(400)).len(), 510);
        assert_eq!(room.text("short".to_owned()), "short");
        let roles = room.list(vec!["r".repeat(1000); 64]);
        let lens: Vec<usize> = roles.iter().map(String::len).collect();
        assert_eq!(lens, [512, 512, 2048 - 510 - 5 - 2 * 520 - 8]);
        assert_eq!(room.text("more".to_owned()), "");
        assert_eq!(room.entry("more".to_owned()), None);
    }
}
