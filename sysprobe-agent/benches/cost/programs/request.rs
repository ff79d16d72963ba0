//! What a whole request takes longer with all domains on: nginx answers, this program asks, and both share
//! one CPU, so that what one of them waits for the other is no time of its own.

use std::fs;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use sysprobe_agent::bpf::{Loader, measure_programs};
use sysprobe_agent::config::Config;
use sysprobe_agent::plan::Plan;
use sysprobe_agent::probe::{AttachMode, PROBES};

use super::cast::Running;
use super::report::{Line, Part, Watched};
use super::{Stage, say, settle};
use crate::figures::Figures;

/// Requests of a batch; few enough for most batches to go without a timer's interrupt.
const REQUESTS: u32 = 20;
const WARM_UP: usize = 10;
const BATCHES: usize = 30;
/// In emulation a server takes seconds to start.
const PATIENCE: Duration = Duration::from_secs(60);

const QUESTION: &[u8] = b"GET / HTTP/1.1\r\nHost: sysprobe\r\n\r\n";

/// With `ADDRESS` for what it listens on, as `cargo xtask bench overhead` has it, too.
const CONFIGURATION: &str = include_str!("nginx.conf");

/// What the agent may do about a load, which it decides by how much there is.
struct Way {
    name: &'static str,
    /// See `rx_follow_one_in`.
    follow_one_in: u32,
    /// Of the eight seconds of which packets are noted for one, it is one of those in which none is looked
    /// at.
    is_paused: bool,
    sheds_vfs: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "everything on", follow_one_in: 1, is_paused: false, sheds_vfs: false },
    Way { name: "one packet of 64 followed: noted", follow_one_in: 64, is_paused: false, sheds_vfs: false },
    Way { name: "one packet of 64 followed: paused", follow_one_in: 64, is_paused: true, sheds_vfs: false },
    Way {
        name: "one packet of 64 followed: paused, vfs shed",
        follow_one_in: 64,
        is_paused: true,
        sheds_vfs: true,
    },
];

/// With the default, whose domains take the first attach mode that works.
pub(super) fn of_default(stage: &Stage) -> Result<()> {
    // Without nginx there is no figure.
    Server::start().map_or(Ok(()), |server| measure(stage, &server, None, false))
}

/// With each attach mode, too.
pub(super) fn of_all_modes(stage: &Stage) -> Result<()> {
    let Ok(server) = Server::start() else { return Ok(()) };
    let modes = AttachMode::value_variants().iter().copied().map(Some);
    [None].into_iter().chain(modes).try_for_each(|mode| measure(stage, &server, mode, true))
}

fn measure(stage: &Stage, server: &Server, mode: Option<AttachMode>, by_program: bool) -> Result<()> {
    for way in &WAYS {
        let config = Config { attach: mode, rx_follow_one_in: way.follow_one_in, ..Config::default() };
        let plan = Plan::new(&stage.facts, &config);
        let with = format!("{}: {}", mode.map_or("default", AttachMode::name), way.name);
        let (mut without, mut added) = (vec![server.slice()?], Figures::default());
        // A slice is long, and the same twice where the clock counts instructions.
        for turn in 0..stage.times.div_ceil(4) {
            let Some(started) = start(&stage.loader, &plan, way) else { break };
            let watched = server.slice()?;
            if by_program && turn == 0 {
                tell_parts(server, &with, &started)?;
            }
            drop(started);
            let before = without[without.len() - 1];
            without.push(server.slice()?);
            added.push(watched - f64::midpoint(before, without[without.len() - 1]));
        }
        if added.is_empty() {
            continue;
        }
        let nothing = without.into_iter().collect::<Figures>().median();
        let call = "a request to nginx over a kept connection".to_owned();
        say(&Line::Request(Watched { call, with, nothing, added: added.spread() }))?;
    }
    Ok(())
}

/// Says what each program takes of a request, by the kernel's statistics, which cost something themselves.
fn tell_parts(server: &Server, with: &str, started: &[Running]) -> Result<()> {
    let _statistics = measure_programs()?;
    let read = || -> Vec<_> { started.iter().flat_map(|running| running.loaded().programs()).collect() };
    let before = read();
    server.slice()?;
    let requests = f64::from(REQUESTS) * (WARM_UP + BATCHES) as f64;
    for (before, after) in before.iter().zip(read()) {
        let (runs, ns) = ((after.runs - before.runs) as f64, (after.run_ns - before.run_ns) as f64);
        if runs > 0.0 {
            let program = after.name.to_owned();
            say(&Line::Part(Part {
                with: with.to_owned(),
                program,
                runs: runs / requests,
                each: ns / runs,
            }))?;
        }
    }
    Ok(())
}

/// Every domain in the first attach mode that the kernel takes. `None` where one that sees requests is
/// missing, or none would shed what the way is without.
fn start(loader: &Loader, plan: &Plan, way: &Way) -> Option<Vec<Running>> {
    loader.share_nothing();
    let mut all = Vec::new();
    for probe in PROBES {
        let Some((set, mut running)) = Running::start_first(loader, plan, probe.domain) else {
            if ["sched", "vfs", "tcp", "rxpath"].contains(&probe.domain) {
                return None;
            }
            continue;
        };
        if way.sheds_vfs && probe.domain == "vfs" {
            // Only what every system call of the node pays for is shed.
            if set.on_tracepoints(&["sys_enter"]).is_empty() {
                return None;
            }
            continue;
        }
        if way.is_paused {
            running.pause();
        }
        all.push(running);
    }
    Some(all)
}

/// One that runs until it is dropped.
struct Server {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making nginx's directory")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = directory.path().join("nginx.conf");
        fs::write(&config, CONFIGURATION.replace("ADDRESS", &format!("127.0.0.1:{port}")))?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(&config).args(["-e", "stderr"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().context("starting nginx")?;
        let mut server = Self { process, port, directory };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            ensure!(self.process.try_wait()?.is_none(), "nginx ended");
            ensure!(
                start.elapsed() < PATIENCE,
                "nginx in {} does not listen",
                self.directory.path().display()
            );
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Nanoseconds of a request.
    fn slice(&self) -> Result<f64> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_nodelay(true)?;
        settle();
        let mut batches = Figures::default();
        for batch in 0..WARM_UP + BATCHES {
            let start = Instant::now();
            for _ in 0..REQUESTS {
                ask(&mut connection)?;
            }
            if batch >= WARM_UP {
                batches.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS));
            }
        }
        Ok(batches.median())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is what is wanted.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The answer has no body.
fn ask(connection: &mut TcpStream) -> Result<()> {
    connection.write_all(QUESTION)?;
    let (mut answer, mut length) = ([0; 1024], 0);
    while !answer[..length].ends_with(b"\r\n\r\n") {
        let read = connection.read(&mut answer[length..])?;
        ensure!(read > 0, "nginx closed the connection");
        length += read;
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "nginx does not answer 200");
    Ok(())
}
