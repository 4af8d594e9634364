//! What `pending` prints: one suspension a line, or two where the terminal is narrow.

use super::{class, status, suspension};
use crate::cli::output::Screen;
use crate::cli::{text, time};
use crate::pb;

/// The most columns for what others have named.
const SUBJECT_COLUMNS: usize = 32;
const WHO_COLUMNS: usize = 20;
/// With fewer columns left for the reason, it goes to a line of its own.
const LEAST_REASON_COLUMNS: usize = 20;
const GAP: &str = "  ";
const HEADER: [&str; 6] = ["ID", "TOOL", "WHO", "DEADLINE", "CLASS", "STATUS"];

/// A table of suspensions; `more` tells whether the server has further pages.
pub(in crate::cli) fn listing(listed: &[pb::Suspension], more: bool, screen: &Screen) -> String {
    if listed.is_empty() && !more {
        return "nothing to list\n".to_owned();
    }
    let mut header = HEADER.map(str::to_owned);
    if listed.iter().any(|listed| !is_approval(listed)) {
        // What is no approval has no class, and a kind instead.
        let [.., class, _] = &mut header;
        class.push_str("/KIND");
    }
    let mut rows = vec![(header, "REASON".to_owned())];
    rows.extend(listed.iter().map(|listed| row(listed, screen)));
    // Where everything is pending, which is the usual list, there is no need to say so.
    let pending: i32 = pb::SuspensionStatus::Pending.into();
    let with_status = listed.iter().any(|listed| listed.status != pending);
    let mut page = draw(&rows, with_status, screen);
    if more {
        page.push_str("there are more: `--all` lists them all\n");
    }
    page
}

fn row(listed: &pb::Suspension, screen: &Screen) -> ([String; 6], String) {
    let who = listed
        .scope
        .as_ref()
        .and_then(|scope| scope.principal.as_ref())
        .map(|principal| principal.id.as_str())
        .filter(|id| !id.is_empty())
        .unwrap_or("-");
    let deadline = match &listed.expire_time {
        Some(deadline) => time::relative(deadline, &screen.now),
        None => "-".to_owned(),
    };
    (
        [
            text::line(&listed.id),
            text::cut(&text::line(suspension::subject(listed)), SUBJECT_COLUMNS),
            text::cut(&text::line(who), WHO_COLUMNS),
            deadline,
            if is_approval(listed) {
                class(listed.risk_class).to_owned()
            } else {
                suspension::kind_name(listed.kind).to_owned()
            },
            status(listed.status).to_owned(),
        ],
        text::line(&listed.reason),
    )
}

fn is_approval(listed: &pb::Suspension) -> bool {
    let approval: i32 = pb::SuspensionKind::Approval.into();
    listed.kind == approval
}

fn draw(rows: &[([String; 6], String)], with_status: bool, screen: &Screen) -> String {
    let columns = if with_status { 6 } else { 5 };
    let mut widths = [0; 6];
    for (cells, _) in rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = text::width(cell).max(*width);
        }
    }
    let taken: usize = widths
        .iter()
        .take(columns)
        .map(|width| width + GAP.len())
        .sum();
    let reason_columns = screen.width.map(|width| width.saturating_sub(taken));
    let mut page = String::new();
    for (row, (cells, reason)) in rows.iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths).take(columns) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(text::width(cell))));
            line.push_str(GAP);
        }
        match (reason_columns, screen.width) {
            (Some(left), Some(width)) if left < LEAST_REASON_COLUMNS => {
                page.push_str(line.trim_end());
                // The heading of the reasons needs no line of its own.
                if row > 0 && !reason.is_empty() {
                    let reason = text::cut(reason, width.saturating_sub(2 * GAP.len()));
                    page.push_str(&format!("\n{GAP}{GAP}{reason}"));
                }
            }
            (Some(left), _) => {
                line.push_str(&text::cut(reason, left));
                page.push_str(line.trim_end());
            }
            (None, _) => {
                line.push_str(reason);
                page.push_str(line.trim_end());
            }
        }
        page.push('\n');
    }
    page
}
