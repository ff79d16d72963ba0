//! Bars of any width.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn all_parts_fill_the_bar(amounts in prop::collection::vec(0u32..1_000_000, 8), width in 0usize..300) {
        prop_assume!(amounts.iter().any(|amount| *amount > 0));
        let total: f64 = amounts.iter().map(|amount| f64::from(*amount)).sum();
        let cells = stacked(amounts.iter().map(|amount| f64::from(*amount) / total), width);
        prop_assert_eq!(cells.iter().sum::<usize>(), width);
        let empty = amounts.iter().zip(&cells).filter(|(amount, _)| **amount == 0);
        prop_assert!(empty.map(|(_, cells)| cells).all(|cells| *cells == 0));
    }
}

#[test]
fn a_bar_is_as_long_as_its_share() {
    let text = |share| Mark::new('T', 1).bar(share, 8, false).content.into_owned();
    assert_eq!((text(0.25), text(0.0), text(0.75)), ("TT".into(), String::new(), "TTTTTT".into()));
}
