//! The page: its tables, and sections that stay when a measurement leaves them out.

use super::super::golden::{Row, Source, Trip, Watch};
use super::super::report::{Cost, Host, Program, Refused, RoundTrip, Spread};
use super::*;

fn row(mode: &str, program: &str, instructions: Option<u64>, verified: Option<u32>) -> Row {
    Row {
        domain: "sched".to_owned(),
        mode: mode.to_owned(),
        program: program.to_owned(),
        hook: "sched_switch".to_owned(),
        instructions,
        most: None,
        verified,
        reason: instructions.is_none().then(|| "it did not run".to_owned()),
    }
}

fn watch(with: &str, added: u64) -> Watch {
    Watch { call: "a read".to_owned(), with: with.to_owned(), nothing: 100, added }
}

fn kernel(series: &str, programs: Vec<Row>, product: u64) -> Kernel {
    Kernel {
        series: series.to_owned(),
        release: format!("{series}.1"),
        source: Source { commit: format!("of-{series}"), ..Source::default() },
        programs,
        round_trips: vec![Trip { mode: "raw_tp".to_owned(), empty: 100, product }],
        calls: vec![watch("raw_tp", 5)],
        requests: vec![watch("default: everything on", 7)],
        refused: Vec::new(),
    }
}

fn golden() -> Golden {
    let mut old = kernel("5.10", vec![row("raw_tp", "sched_rt", Some(1270), None)], 2636);
    old.refused.push(Refused {
        domain: "sched".to_owned(),
        mode: "tp_btf".to_owned(),
        reason: "there is no task storage".to_owned(),
    });
    let rows = vec![
        row("tp_btf", "sched_tp", Some(417), Some(2153)),
        row("tp_btf", "sched_odd", None, Some(9)),
        row("raw_tp", "sched_rt", Some(1223), Some(7218)),
    ];
    Golden { kernels: vec![old, kernel("6.12", rows, 2627)] }
}

#[test]
fn rows_are_programs_by_attach_mode_and_columns_are_kernels() {
    let page = render(&golden(), Vec::new(), "");
    let wanted = "\
| domain | attach mode | program | hook | 5.10 | 6.12 |
|---|---|---|---|---:|---:|
| sched | tp_btf | `sched_tp` | `sched_switch` | - | 417 (2153) |
| sched | tp_btf | `sched_odd` | `sched_switch` | - | - |
| sched | raw_tp | `sched_rt` | `sched_switch` | 1270 (-) | 1223 (7218) |
";
    assert!(page.contains(wanted), "{page}");
    assert!(page.contains("| raw_tp | 1318 (50) | 1313.5 (50) |\n"), "{page}");
}

#[test]
fn calls_are_beside_those_that_other_tools_watch() {
    let mut golden = golden();
    golden.kernels[1].calls.push(watch("vfsstat 3600", 7));
    let table = tables::calls(&golden);
    assert!(table.contains("| a read | `raw_tp` | +5 (100) | +5 (100) |"), "{table}");
    assert!(table.contains("| a read | `vfsstat 3600` | - | +7 (100) |"), "{table}");
}

#[test]
fn what_has_no_number_has_a_reason() {
    let mut golden = golden();
    let none = |program| row("raw_tp", program, None, None);
    golden.kernels[0].programs.extend(["sched_even", "sched_even", "sched_late"].map(none));
    golden.kernels[1].programs.extend(["sched_even", "sched_late"].map(none));
    let page = render(&golden, Vec::new(), "");
    assert!(page.contains("- there is no task storage: sched tp_btf on 5.10\n"), "{page}");
    let together = "- it did not run: `sched_even`, `sched_late` on 5.10, 6.12; `sched_odd` on 6.12\n";
    assert!(page.contains(together), "{page}");
}

fn host() -> Vec<Line> {
    let spread = |median| Spread { median, low: median - 2.0, high: median + 2.0 };
    vec![
        Line::Host(Host { release: "6.18".to_owned(), cpus: 2 }),
        Line::Program(Program {
            domain: "sched".to_owned(),
            mode: "tp_btf".to_owned(),
            name: "sched_tp".to_owned(),
            hook: "sched_switch".to_owned(),
            verified: None,
            cost: Ok(Cost { net: spread(67.6), steady: 67.6, empty: 57.4, runs: 2.0 }),
        }),
        Line::RoundTrip(RoundTrip {
            mode: "tp_btf".to_owned(),
            nothing: 4900.0,
            empty: spread(80.0),
            product: spread(-10.0),
        }),
        Line::Refused(Refused {
            domain: "sched".to_owned(),
            mode: "kprobe".to_owned(),
            reason: "there are none".to_owned(),
        }),
    ]
}

#[test]
fn the_host_has_times_with_their_spread() {
    let page = render(&golden(), vec![on_host(&host(), "0.5", "of-the-host")], "");
    assert!(page.contains("Linux 6.18, 2 CPUs, load 0.5"), "{page}");
    assert!(page.contains("with the programs of commit of-the-host."), "{page}");
    assert!(page.contains("6.12 is `6.12.1`, with the programs of commit of-6.12."), "{page}");
    assert!(
        page.contains("| sched | tp_btf | `sched_tp` | `sched_switch` | 67.6 | 65.6-69.6 | 57.4 |\n"),
        "{page}"
    );
    assert!(page.contains("| tp_btf | 4900 | +40 (+39 to +41) | -5 (-6 to -4) |\n"), "{page}");
    assert!(page.contains("- there are none: sched kprobe\n"), "{page}");
}

#[test]
fn what_is_not_measured_anew_stays() {
    let first = render(&golden(), Vec::new(), "");
    assert_eq!(first.matches("Not measured yet").count(), 3);
    let host = on_host(&host(), "0.5", "of-the-host");
    let new = vec![host, differences(&[]), requests("| nginx | +1 % |\n")];
    let full = render(&golden(), new, &first);
    assert!(full.contains("## Whole requests\n\n| nginx | +1 % |\n\n## "), "{full}");
    assert_eq!(render(&golden(), Vec::new(), &full), full);
    let mut newer = golden();
    newer.kernels[1].programs[0].instructions = Some(500);
    let page = render(&newer, Vec::new(), &full);
    assert!(page.contains("500 (2153)") && page.contains("67.6"), "{page}");
}

#[test]
fn boots_that_differ_are_listed() {
    let boot = |count, product| kernel("6.12", vec![row("raw_tp", "sched_rt", Some(count), None)], product);
    let body = differences(&[vec![boot(100, 7), boot(103, 7)]]).body;
    assert!(body.contains("6.12 (2). Of 3 counts 2 were the same in each boot."), "{body}");
    assert!(body.contains("| 6.12 | `sched_rt` (raw_tp) | 100, 103 |"), "{body}");
    assert!(differences(&[vec![boot(1, 1)]]).body.contains("One boot tells of no difference"));
}
