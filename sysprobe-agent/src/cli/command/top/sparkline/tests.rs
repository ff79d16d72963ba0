//! The scale.

use super::*;

#[test]
fn every_step_is_the_square_root_of_ten() {
    let seconds = [100e-6, 400e-6, 1.1e-3, 4e-3, 11e-3, 40e-3, 110e-3, 1.0];
    assert_eq!(line(&seconds.map(Some)), "▁▂▃▄▅▆▇█");
}

#[test]
fn a_window_without_a_number_is_blank() {
    assert_eq!(line(&[Some(1e-3), None, None, Some(1e-5)]), "▃  ▁");
    assert_eq!(line(&[]), "");
}

#[test]
fn what_is_off_the_scale_is_at_its_ends() {
    assert_eq!(line(&[Some(0.0), Some(1e-9), Some(32.0), Some(f64::INFINITY)]), "▁▁██");
}
