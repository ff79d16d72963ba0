//! The report: its two tables, and the text below them.

use super::*;

fn measured(cpu_ns: f64) -> Measured {
    Measured {
        requests: 1000.0,
        cpu_ns,
        rate: 1e9 / cpu_ns,
        median_ns: 10.0 * cpu_ns,
        p99_ns: 2_000.0 * cpu_ns,
    }
}

fn off(domain: &str) -> Off {
    Off { domain: domain.to_owned(), reason: "so".to_owned() }
}

fn report(variants: &[&str], cpu: &[(Part, f64)]) -> Report {
    let setting = Setting {
        kernel: "6.18".to_owned(),
        processor: "a processor".to_owned(),
        cpus: 2,
        server_cpu: 1,
        client_cpu: 0,
        load: "0.10".to_owned(),
        agent: "sysprobe 0.1.0, commit abc".to_owned(),
        command: "cargo xtask bench overhead".to_owned(),
        pairs: 1,
        lead: 5,
        seconds: 1,
    };
    let parts = cpu.iter().map(|(part, cpu_ns)| (*part, measured(*cpu_ns))).collect();
    Report {
        setting,
        variants: variants.iter().map(|title| (*title).to_owned()).collect(),
        results: vec![Results {
            name: "load",
            title: "a load",
            requests: "requests",
            parts,
            programs: Vec::new(),
        }],
        left_out: vec!["redis: redis-server is not installed".to_owned()],
        off: BTreeMap::from([
            (off("pressure"), BTreeSet::from(["load"])),
            (off("vfs"), BTreeSet::from(["fio", "load"])),
        ]),
    }
}

#[test]
fn the_default_has_all_its_figures_beside_a_against_a() {
    use Part::{With, Without};
    let cpu = [
        (Without, 10_000.0),
        (With(0), 10_100.0),
        (Without, 10_000.0),
        (With(1), 12_500.0),
        (Without, 10_000.0),
    ];
    let text = report(&["A against A", "default"], &cpu).to_text();
    let wanted = "\
| load | figure | without | default | A against A |
|---|---|---:|---:|---:|
| a load | CPU time per request | 10.0 us | +25.0 % (+25.0 to +25.0) | +1.0 % (+1.0 to +1.0) |
|  | requests per second | 100000 | -20.0 % (-20.0 to -20.0) | -1.0 % (-1.0 to -1.0) |
|  | median latency | 100.0 us | +25.0 % (+25.0 to +25.0) | +1.0 % (+1.0 to +1.0) |
|  | p99 latency | 20.0 ms | +25.0 % (+25.0 to +25.0) | +1.0 % (+1.0 to +1.0) |

- `pressure` was off with every load: so
- `vfs` was off with fio, load: so
- left out: redis: redis-server is not installed
";
    assert!(text.ends_with(wanted), "{text}");
    assert!(text.contains("servers on CPU 1, clients on CPU 0"), "{text}");
}

#[test]
fn every_variant_has_its_cpu_time_by_load() {
    use Part::{With, Without};
    let cpu = [
        (Without, 100.0),
        (With(0), 101.0),
        (Without, 100.0),
        (With(1), 150.0),
        (Without, 100.0),
        (With(2), 120.0),
        (Without, 100.0),
    ];
    let text = report(&["A against A", "default", "`sched` only"], &cpu).to_text();
    let wanted = "\
| variant | load |
|---|---:|
| default | +50.0 % (+50.0 to +50.0) |
| `sched` only | +20.0 % (+20.0 to +20.0) |
| A against A | +1.0 % (+1.0 to +1.0) |
";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn pairs_are_summed_up_by_median_and_quartiles() {
    use Part::{With, Without};
    let with = [110.0, 112.0, 300.0, 111.0, 113.0];
    let mut cpu = vec![(Without, 100.0)];
    for value in with {
        cpu.extend([(With(0), value), (Without, 100.0)]);
    }
    let report = report(&["A against A"], &cpu);
    let spread = report.results[0].change(Figure::Cpu, 0).unwrap();
    let near = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
    assert!(near(spread.low, 11.0) && near(spread.median, 12.0) && near(spread.high, 13.0), "{spread:?}");
    assert!(near(report.results[0].last_change(Figure::Cpu, 0).unwrap(), 13.0));
    assert_eq!(report.results[0].change(Figure::Cpu, 1), None);
}

#[test]
fn programs_are_in_the_order_of_what_a_request_spends_in_them() {
    let mut report = report(&["A against A", "default"], &[]);
    let shares = |a: f64| {
        let share = |runs, ns| Share { runs, ns };
        Shares::from([("a".to_owned(), share(1.0, a)), ("b".to_owned(), share(2.0, 100.0))])
    };
    report.results[0].programs = vec![("default".to_owned(), shares(50.0))];
    report.results[0].programs.push(("before".to_owned(), shares(900.0)));
    let text = report.to_text();
    let wanted = "\
| program | load, default | load, before |
|---|---:|---:|
| `b` | 2.00 x 100 ns | 2.00 x 100 ns |
| `a` | 1.00 x 50 ns | 1.00 x 900 ns |
| total | 250 ns | 1100 ns |
";
    assert!(text.contains(wanted), "{text}");
}
