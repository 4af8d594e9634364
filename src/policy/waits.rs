//! How long the kinds of suspension wait that are no approval, and what follows (S6).

use std::time::Duration;

use super::document::SuspensionsDocument;
use crate::domain::{OnExpiry, WaitTerms};

/// The terms of each kind.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) question: WaitTerms,
    pub(super) external: WaitTerms,
    pub(super) client_tool: WaitTerms,
    pub(super) sign_in: WaitTerms,
}

impl Default for Waits {
    fn default() -> Self {
        let days = |days: u64| WaitTerms {
            expires: Duration::from_secs(days * 24 * 60 * 60),
            on_expiry: OnExpiry::Abandon,
        };
        Self {
            question: days(1),
            external: days(7),
            client_tool: days(1),
            sign_in: days(1),
        }
    }
}

impl Waits {
    /// Takes over what the document says.
    pub(super) fn set(&mut self, document: &SuspensionsDocument) {
        for (terms, written) in [
            (&mut self.question, &document.question),
            (&mut self.external, &document.external),
            (&mut self.client_tool, &document.client_tool),
            (&mut self.sign_in, &document.sign_in),
        ] {
            terms.expires = written.expires.unwrap_or(terms.expires);
            terms.on_expiry = written.on_expiry.unwrap_or(terms.on_expiry);
        }
    }
}
