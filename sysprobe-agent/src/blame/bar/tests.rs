//! Bars of any width.

use proptest::prelude::*;

use super::*;

fn parts(amounts: &[u32]) -> Vec<Part> {
    let total: f64 = amounts.iter().map(|amount| f64::from(*amount)).sum();
    let part = |(amount, cause): (&u32, &Cause)| Part {
        cause: *cause,
        who: None,
        seconds: f64::from(*amount),
        share: f64::from(*amount) / total,
    };
    amounts.iter().zip(&Cause::EACH).map(part).collect()
}

proptest! {
    #[test]
    fn all_parts_fill_the_bar(amounts in prop::collection::vec(0u32..1_000_000, 8), width in 0usize..300) {
        prop_assume!(amounts.iter().any(|amount| *amount > 0));
        let cells = stacked(&parts(&amounts), width);
        prop_assert_eq!(cells.iter().sum::<usize>(), width);
        let empty = amounts.iter().zip(&cells).filter(|(amount, _)| **amount == 0);
        prop_assert!(empty.map(|(_, cells)| cells).all(|cells| *cells == 0));
    }
}

#[test]
fn every_cause_has_its_own_letter_and_colour() {
    let mut letters: Vec<_> = Cause::EACH.map(letter).to_vec();
    let mut colours: Vec<_> = Cause::EACH.map(|cause| format!("{:?}", style(cause).bg)).to_vec();
    letters.sort_unstable();
    letters.dedup();
    colours.sort();
    colours.dedup();
    assert_eq!((letters.len(), colours.len()), (8, 8));
}

#[test]
fn a_bar_is_as_long_as_its_share() {
    let parts = parts(&[1, 0, 3]);
    assert_eq!(
        (single(&parts[0], 8), single(&parts[1], 8), single(&parts[2], 8)),
        ("TT".into(), String::new(), "OOOOOO".into())
    );
}
