//! A run and those that descend from it, as far as the suspensions that were met tell whose children they are.

use std::collections::{HashMap, HashSet};

use crate::domain::{Id, Scope};

/// Runs are told apart by their ids alone: one whose id is another's too belongs here if either does.
pub(super) struct Family {
    /// None: every run belongs to it.
    root: Option<Id>,
    children: HashMap<Id, HashSet<Id>>,
    members: HashSet<Id>,
    /// Runs that did not belong to it when a suspension of theirs was met.
    passed_over: HashSet<Id>,
    lacks_some: bool,
}

impl Family {
    /// A run alone, or every run.
    pub(super) fn of(root: Option<Id>) -> Self {
        Self {
            members: root.iter().cloned().collect(),
            root,
            children: HashMap::new(),
            passed_over: HashSet::new(),
            lacks_some: false,
        }
    }

    /// Forgets who belongs to it: what is kept no longer need not be remembered.
    pub(super) fn forget(&mut self) {
        *self = Self::of(self.root.take());
    }

    /// Whether a suspension of this scope belongs to it.
    pub(super) fn holds(&mut self, scope: &Scope) -> bool {
        let holds = self.root.is_none() || self.members.contains(&scope.run_id);
        if !holds && !scope.run_id.is_empty() {
            self.passed_over.insert(scope.run_id.clone());
        }
        holds
    }

    /// Learns whose child the run of a scope is. Each link is followed once.
    pub(super) fn learn(&mut self, scope: &Scope) {
        let Scope {
            run_id,
            parent_run_id,
            ..
        } = scope;
        if self.root.is_none() || run_id.is_empty() || parent_run_id.is_empty() {
            return;
        }
        let siblings = self.children.entry(parent_run_id.clone()).or_default();
        if !siblings.insert(run_id.clone()) || !self.members.contains(parent_run_id) {
            return;
        }
        // What descends from it may have been met before.
        let mut joining = vec![run_id.clone()];
        while let Some(run) = joining.pop() {
            if !self.members.insert(run.clone()) {
                continue;
            }
            self.lacks_some |= self.passed_over.remove(&run);
            joining.extend(self.children.get(&run).into_iter().flatten().cloned());
        }
    }

    /// Whether a suspension that was passed over has turned out to belong to it, since this was last asked.
    pub(super) fn lacks_some(&mut self) -> bool {
        std::mem::take(&mut self.lacks_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(run: &str, parent: &str) -> Scope {
        Scope {
            run_id: Id::parse(run).unwrap(),
            parent_run_id: Id::parse(parent).unwrap(),
            ..Scope::default()
        }
    }

    fn family(links: &[(&str, &str)]) -> Family {
        let mut family = Family::of(Some(Id::parse("root").unwrap()));
        for (run, parent) in links {
            family.learn(&scope(run, parent));
        }
        family
    }

    #[test]
    fn descendants_belong_to_it_in_whatever_order_they_are_met() {
        for links in [
            [("a", "root"), ("b", "a"), ("c", "b")],
            [("c", "b"), ("b", "a"), ("a", "root")],
            [("b", "a"), ("a", "root"), ("c", "b")],
        ] {
            let mut family = family(&links);
            for run in ["root", "a", "b", "c"] {
                assert!(family.holds(&scope(run, "")), "{run} of {links:?}");
            }
            assert!(!family.holds(&scope("d", "")));
        }
    }

    #[test]
    fn what_was_passed_over_and_belongs_to_it_after_all_is_said_once() {
        let mut family = family(&[("b", "a")]);
        assert!(!family.holds(&scope("b", "a")) && !family.lacks_some());
        family.learn(&scope("a", "root"));
        assert!(family.lacks_some() && !family.lacks_some());
        // A run that is met for the first time lacks nothing.
        family.learn(&scope("c", "root"));
        assert!(family.holds(&scope("c", "root")) && !family.lacks_some());
    }

    #[test]
    fn a_run_of_two_parents_belongs_to_both_and_a_cycle_ends() {
        let mut family = family(&[
            ("a", "other"),
            ("a", "root"),
            ("b", "a"),
            ("a", "b"),
            ("root", "a"),
        ]);
        assert!(family.holds(&scope("b", "")));
        family.forget();
        assert!(family.holds(&scope("root", "")) && !family.holds(&scope("a", "")));
    }

    #[test]
    fn a_long_chain_costs_each_link_once() {
        let mut family = Family::of(Some(Id::parse("r0").unwrap()));
        // The longest way: each link is met before the one that it hangs on.
        for n in (1..50_000).rev() {
            family.learn(&scope(&format!("r{n}"), &format!("r{}", n - 1)));
        }
        assert!(family.holds(&scope("r49999", "")));
    }
}
