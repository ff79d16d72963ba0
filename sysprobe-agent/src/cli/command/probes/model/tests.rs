//! Windows between two snapshots.

use super::*;
use crate::cli::command::probes::fixture::window;

fn names(window: &Window, order: Order) -> Vec<String> {
    window.sorted(order).into_iter().map(|row| row.total.program.clone()).collect()
}

#[test]
fn a_window_is_the_difference() {
    let (earlier, later) = window();
    let window = Window::new(&earlier, &later);
    let switch = &window.programs[0];
    assert_eq!((switch.runs, switch.run_ns, switch.missed), (20_000, 3_000_000, 3));
    assert_eq!((switch.mean_ns(), window.programs[2].mean_ns()), (Some(150.0), None));
    assert_eq!((window.runs(), window.run_ns()), (60_000, 11_000_000));
    assert_eq!(window.per_second(window.runs()), Some(30_000.0));
    assert_eq!(window.cpu_share(window.run_ns()), Some(0.0055));
    let LostRow { count, total, .. } = window.lost[0];
    assert_eq!((window.lost.len(), count, total), (1, 2, 9));
}

#[test]
fn an_agent_that_was_started_anew_has_nothing_negative() {
    let (earlier, later) = window();
    let window = Window::new(&later, &earlier);
    assert!(window.programs.iter().all(|row| (row.runs, row.run_ns, row.missed) == (0, 0, 0)));
    assert!(window.per_second(1).is_none(), "not even the time goes back");
}

#[test]
fn the_most_expensive_comes_first_unless_asked_otherwise() {
    let (earlier, later) = window();
    let window = Window::new(&earlier, &later);
    let all = ["rxpath_adjust_x", "sched_switch_tp", "sched_flush"];
    assert_eq!(names(&window, Order::default()), all);
    assert_eq!(
        names(&window, Order { reverse: true, ..Order::default() }),
        all.map(str::to_owned).into_iter().rev().collect::<Vec<_>>()
    );
    let by = |sort| names(&window, Order { sort, reverse: false });
    assert_eq!(by(SortKey::Missed)[0], "sched_switch_tp");
    assert_eq!(by(SortKey::Time)[0], "rxpath_adjust_x");
    assert_eq!(by(SortKey::Name), ["rxpath_adjust_x", "sched_flush", "sched_switch_tp"]);
}

#[test]
fn keys_go_round() {
    let mut key = SortKey::default();
    for _ in SortKey::value_variants() {
        key = key.neighbour(1);
    }
    assert_eq!((key, SortKey::Cpu.neighbour(-1)), (SortKey::Cpu, SortKey::Name));
}

#[test]
fn what_ran_was_measured_whoever_asked() {
    let (earlier, mut later) = window();
    later.agent.measuring = Measuring::Refused("Operation not permitted".to_owned());
    assert!(Window::new(&earlier, &later).is_measured());
    assert!(!Window::new(&later, &later).is_measured());
}
