//! What came of test cases: a table of what does not hold, and one line that sums up.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::cli::text;

const HEADER: [&str; 5] = ["WHERE", "CASE", "FIELD", "EXPECTED", "GOT"];
const GAP: &str = "  ";

/// One case and what did not hold.
#[derive(Debug)]
pub(super) struct Tested {
    file: String,
    line: u32,
    name: String,
    /// Why it was decided so.
    pub(super) reason: String,
    failures: Vec<Failure>,
}

#[derive(Debug)]
struct Failure {
    field: &'static str,
    expected: String,
    got: String,
}

impl Tested {
    pub(super) fn new(file: &str, line: u32, name: String) -> Self {
        Self {
            file: file.to_owned(),
            line,
            name,
            reason: String::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn fail(&mut self, field: &'static str, expected: String, got: String) {
        self.failures.push(Failure {
            field,
            expected,
            got,
        });
    }

    fn holds(&self) -> bool {
        self.failures.is_empty()
    }

    fn rows(&self) -> impl Iterator<Item = [String; 5]> + '_ {
        self.failures.iter().map(|failure| {
            let Failure {
                field,
                expected,
                got,
            } = failure;
            let shown = |value: &str| match value {
                "" => "-".to_owned(),
                value => text::line(value),
            };
            let mut got = shown(got);
            if *field == "effect" && !self.reason.is_empty() {
                let _ = write!(got, ": {}", text::line(&self.reason));
            }
            [
                text::line(&format!("{}:{}", self.file, self.line)),
                text::line(&self.name),
                (*field).to_owned(),
                shown(expected),
                got,
            ]
        })
    }
}

/// All cases.
#[derive(Debug, Default)]
pub(super) struct Report {
    cases: Vec<Tested>,
}

impl Report {
    pub(super) fn add(&mut self, case: Tested) {
        self.cases.push(case);
    }

    /// Whether every case holds; no case at all does not.
    pub(super) fn holds(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(Tested::holds)
    }

    fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.holds()).count()
    }

    pub(super) fn page(&self) -> String {
        let rows: Vec<[String; 5]> = self.cases.iter().flat_map(Tested::rows).collect();
        let mut page = String::new();
        if !rows.is_empty() {
            let header = HEADER.map(str::to_owned);
            let all: Vec<&[String; 5]> = [&header].into_iter().chain(&rows).collect();
            let mut widths = [0; 5];
            for row in &all {
                for (width, cell) in widths.iter_mut().zip(*row) {
                    *width = text::width(cell).max(*width);
                }
            }
            for row in all {
                let mut line = String::new();
                for (cell, width) in row.iter().zip(widths) {
                    line.push_str(cell);
                    line.push_str(&" ".repeat(width.saturating_sub(text::width(cell))));
                    line.push_str(GAP);
                }
                page.push_str(line.trim_end());
                page.push('\n');
            }
        }
        let (total, passed) = (self.cases.len(), self.passed());
        let cases = if total == 1 { "case" } else { "cases" };
        // Writing to a String does not fail.
        let _ = match total - passed {
            0 => writeln!(page, "{total} {cases} passed"),
            failed => writeln!(page, "{total} {cases}: {passed} passed, {failed} failed"),
        };
        page
    }

    pub(super) fn to_json(&self) -> Json {
        let failure = |failure: &Failure| {
            let Failure {
                field,
                expected,
                got,
            } = failure;
            json!({"field": field, "expected": expected, "got": got})
        };
        let case = |case: &Tested| {
            let Tested {
                file,
                line,
                name,
                reason,
                failures,
            } = case;
            json!({
                "file": file,
                "line": line,
                "name": name,
                "passed": case.holds(),
                "reason": reason,
                "failures": failures.iter().map(failure).collect::<Vec<_>>(),
            })
        };
        let passed = self.passed();
        json!({
            "passed": passed,
            "failed": self.cases.len() - passed,
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
        })
    }
}
