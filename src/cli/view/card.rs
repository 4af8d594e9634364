//! One answer as labelled lines, the values in a column of their own.

use prost_types::Timestamp;

use crate::cli::output::Screen;
use crate::cli::{text, time};

/// The columns of the labels and the gap after them.
const LABEL_COLUMNS: usize = 14;

/// Labelled values. What is empty is left out; every value is neutralised when it is drawn, and none can reach the
/// column of the labels.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Card {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    label: &'static str,
    lines: Vec<String>,
    wrap: bool,
}

impl Card {
    /// A value of one line.
    pub(in crate::cli) fn line(&mut self, label: &'static str, value: &str) {
        if !value.is_empty() {
            self.push(label, vec![value.to_owned()], true);
        }
    }

    /// A text that may have lines of its own.
    pub(super) fn text(&mut self, label: &'static str, value: &str) {
        if !value.is_empty() {
            self.push(label, value.lines().map(str::to_owned).collect(), true);
        }
    }

    /// Several texts, each under the label.
    pub(super) fn texts(&mut self, label: &'static str, values: &[String]) {
        for value in values {
            self.text(label, value);
        }
    }

    /// Several names on one line.
    pub(super) fn names<S: AsRef<str>>(&mut self, label: &'static str, names: &[S]) {
        self.line(label, &text::names(names));
    }

    /// JSON text, laid out.
    pub(super) fn json(&mut self, label: &'static str, value: &str) {
        if !value.is_empty() {
            self.push(label, text::json_lines(value), true);
        }
    }

    /// A moment, and how far it is from now.
    pub(super) fn moment(
        &mut self,
        label: &'static str,
        moment: Option<&Timestamp>,
        now: &Timestamp,
    ) {
        if let Some(moment) = moment {
            self.line(label, &time::absolute(moment, now));
        }
    }

    /// A command to paste: never wrapped, as a line break would cut it in two.
    pub(super) fn command(&mut self, label: &'static str, command: &str) {
        self.push(label, vec![command.to_owned()], false);
    }

    fn push(&mut self, label: &'static str, lines: Vec<String>, wrap: bool) {
        self.rows.push(Row { label, lines, wrap });
    }

    pub(in crate::cli) fn render(&self, screen: &Screen) -> String {
        let columns = screen
            .width
            .map(|width| width.saturating_sub(LABEL_COLUMNS).max(1));
        let mut page = String::new();
        for Row { label, lines, wrap } in &self.rows {
            let mut label = *label;
            for line in lines {
                let line = text::line(line);
                let wrapped = match columns {
                    Some(columns) if *wrap => text::wrap(&line, columns),
                    Some(_) | None => vec![line],
                };
                for line in wrapped {
                    let row = format!("{label:LABEL_COLUMNS$}{line}");
                    page.push_str(row.trim_end());
                    page.push('\n');
                    label = "";
                }
            }
        }
        page
    }
}
