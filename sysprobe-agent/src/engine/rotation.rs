//! Rotates turns where there is not always time for all.

use std::collections::HashMap;

/// The round in which each ID had its last turn.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    last: HashMap<u64, u64>,
    round: u64,
}

impl Rotation {
    /// Visits all items, least recently served first and new ones before them. `act` gets each item and
    /// whether it has its turn: the first one always does, the others while there is time. Returns whether
    /// all of them had their turn.
    pub(super) fn round<T>(
        &mut self,
        all: &mut [T],
        id: impl Fn(&T) -> u64,
        has_time: impl Fn() -> bool,
        mut act: impl FnMut(&T, bool),
    ) -> bool {
        self.round += 1;
        all.sort_by_key(|one| self.last.get(&id(one)).copied().unwrap_or(0));
        let mut goes_on = true;
        for (at, one) in all.iter().enumerate() {
            goes_on = goes_on && (at == 0 || has_time());
            act(one, goes_on);
            if goes_on {
                self.last.insert(id(one), self.round);
            }
        }
        goes_on
    }

    /// Forgets an ID that does not come back.
    pub(super) fn forget(&mut self, id: u64) {
        self.last.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// One round with time for `time` turns: the IDs that had a turn, and those that did not.
    fn round(rotation: &mut Rotation, ids: impl IntoIterator<Item = u64>, time: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut all, left) = (Vec::from_iter(ids), Cell::new(time));
        let (mut had, mut not) = (Vec::new(), Vec::new());
        let complete = rotation.round(
            &mut all,
            |id| *id,
            || left.get() > 0,
            |id, has_turn| {
                left.set(left.get().saturating_sub(1));
                if has_turn { had.push(*id) } else { not.push(*id) }
            },
        );
        assert_eq!(complete, not.is_empty());
        (had, not)
    }

    #[test]
    fn all_have_their_turns_one_after_the_other_and_new_ones_first() {
        let mut rotation = Rotation::default();
        assert_eq!(round(&mut rotation, 1..=5, 2), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(round(&mut rotation, 1..=5, 2), (vec![3, 4], vec![5, 1, 2]));
        assert_eq!(round(&mut rotation, 1..=6, 3), (vec![5, 6, 1], vec![2, 3, 4]));
        assert_eq!(round(&mut rotation, 1..=6, 9).0, [2, 3, 4, 1, 5, 6]);
        rotation.forget(6);
        assert_eq!(round(&mut rotation, [1, 6], 1).0, [6]);
    }

    #[test]
    fn without_any_time_one_has_its_turn() {
        let mut rotation = Rotation::default();
        let first: Vec<_> = (0..3).flat_map(|_| round(&mut rotation, 1..=3, 0).0).collect();
        assert_eq!(first, [1, 2, 3]);
    }
}
