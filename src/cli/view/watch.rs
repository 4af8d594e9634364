//! What `watch` prints: a line for each event.

use super::suspension::{standing, subject};
use crate::cli::output::Screen;
use crate::cli::{text, time};
use crate::pb;

/// The time, the id, what became of it, and what it is about.
pub(in crate::cli) fn watched(event: &pb::WatchEvent, screen: &Screen) -> String {
    let pb::WatchEvent {
        suspension,
        initial: _,
        initial_complete,
    } = event;
    let Some(suspension) = suspension else {
        let line = "that is all there is now; what changes follows\n";
        return if *initial_complete { line } else { "" }.to_owned();
    };
    let line = format!(
        "{}  {}  {}  {}",
        time::of_day(&screen.now),
        text::line(&suspension.id),
        standing(suspension, &screen.now),
        text::line(subject(suspension)),
    );
    let line = match screen.width {
        Some(width) => text::cut(&line, width),
        None => line,
    };
    format!("{line}\n")
}
