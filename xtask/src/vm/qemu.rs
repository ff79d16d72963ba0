//! The QEMU machine, and the process that shares the host's files with it.
//!
//! Both are killed by process id when they go out of scope, and by the kernel if we are killed.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask_init::{PROGRAMS, SHARE};

use super::board::Board;
use super::run::Settings;
use super::tree::Kernel;
use crate::{cmd, paths};

/// In MiB. Enough for an agent, its tests and a Prometheus; the second value is for the kernel's own
/// memory for each CPU.
const MEMORY: u32 = 2048;
const MEMORY_PER_CPU: u32 = 32;
/// With two CPUs, programs run concurrently as they do on a node.
pub(super) const CPUS: u32 = 2;
/// With more CPUs, each socket has this many and its own last-level cache.
const CPUS_PER_SOCKET: u32 = 8;

/// How a guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    Emulated,
    /// The host's own, which is faster.
    Virtualised,
    /// Emulated, one CPU. Its clock advances by a nanosecond with each instruction and jumps over idle time,
    /// so measured times are instruction counts that do not depend on the host's load.
    Counting,
}

/// One thread runs all CPUs. With a thread per CPU (QEMU 7.2), kernels of all series crash after a busy
/// function such as `rcu_note_context_switch` is traced and released a few times; with one thread they
/// survive hundreds of times. Measured on two busy cores, it is not slower.
const EMULATION: &str = "tcg,thread=single";

/// One instruction takes 2^0 nanoseconds, and QEMU does not sleep through idle time. Random numbers and the
/// time of day are the same in each run.
const COUNTING: [&str; 12] = [
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=0,sleep=off",
    "-cpu",
    "max",
    "-smp",
    "1",
    "-seed",
    "1",
    "-rtc",
    "base=2026-01-01,clock=vm",
];

/// How long the file server may take to be ready.
const SERVER: Duration = Duration::from_secs(120);

/// The kernel command line without the console. It shows warnings, because some kernel faults only warn. A
/// panic ends the machine at once. Watchdog limits are long, because emulation is slow and the host may be
/// busy.
const COMMAND_LINE: &str = "loglevel=5 oops=panic panic=-1 watchdog_thresh=60 \
    rcupdate.rcu_cpu_stall_timeout=100 mitigations=off nokaslr no_timer_check random.trust_cpu=on psi=1";

/// A child that does not outlive us.
struct Guarded(Child);

/// A running machine with the files it writes.
pub(super) struct Machine {
    qemu: Guarded,
    _files: Vec<Guarded>,
    pub(super) console: PathBuf,
    pub(super) reports: PathBuf,
    log: PathBuf,
}

impl Machine {
    pub(super) fn start(kernel: &Kernel, initramfs: &Path, settings: Settings<'_>) -> Result<Self> {
        let Settings { processor, cpus, programs, append, .. } = settings;
        let place = |name: &str| kernel.directory.join(name);
        let (console, reports, log) = (place("console"), place("reports"), place("qemu.log"));
        File::create(&console)?;
        File::create(&reports)?;
        let board = Board::of(kernel.arch);
        let mut qemu = with_us(board.program);
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        let memory = format!("{}M", MEMORY + cpus * MEMORY_PER_CPU);
        qemu.args(["-machine", board.machine, "-m", &memory]).args(processor.arguments(board, cpus));
        qemu.arg("-append").arg(format!("{} {append}", processor.command_line(board)));
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs);
        for (id, file) in [("console", &console), ("reports", &reports)] {
            qemu.arg("-chardev").arg(format!("file,id={id},path={}", file.display()));
        }
        qemu.args(["-serial", "chardev:console"]).args(board.reports);
        qemu.args(["-object", &format!("memory-backend-memfd,id=memory,size={memory},share=on")]);
        qemu.args(["-numa", "node,memdev=memory"]);
        let mut files = Vec::new();
        for (tag, directory) in [(SHARE, Path::new("/"))].into_iter().chain(programs.map(|at| (PROGRAMS, at)))
        {
            let socket = place(&format!("{tag}.sock"));
            files.push(share(directory, &socket, &place(&format!("{tag}.log")))?);
            qemu.arg("-chardev").arg(format!("socket,id={tag},path={}", socket.display()));
            qemu.args(["-device", &format!("vhost-user-fs-pci,chardev={tag},tag={tag},queue-size=1024")]);
        }
        let output = File::create(&log)?;
        let child =
            qemu.stdout(output.try_clone()?).stderr(output).spawn().context("QEMU cannot be started")?;
        Ok(Self { qemu: Guarded(child), _files: files, console, reports, log })
    }

    /// Whether the machine is off.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.qemu.0.try_wait()?)
    }

    /// QEMU's own error output.
    pub(super) fn complaints(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Processor {
    fn arguments(self, board: Board, cpus: u32) -> Vec<String> {
        let arguments = match self {
            Self::Emulated => vec!["-accel", EMULATION, "-cpu", board.processor],
            Self::Virtualised => vec!["-accel", "kvm", "-cpu", "host"],
            Self::Counting => return COUNTING.map(str::to_owned).to_vec(),
        };
        let sockets = if cpus.is_multiple_of(CPUS_PER_SOCKET) { cpus / CPUS_PER_SOCKET } else { 1 };
        let topology = ["-smp".to_owned(), format!("{cpus},sockets={sockets}")];
        arguments.into_iter().map(str::to_owned).chain(topology).collect()
    }

    /// The instruction-counting clock needs no clock argument; with one, the kernel does not start.
    fn command_line(self, board: Board) -> String {
        let clock = if self == Self::Counting { "" } else { board.clock };
        format!("console={} {COMMAND_LINE}{clock}", board.console)
    }
}

/// Serves a directory of the host. Up to version 7, QEMU includes the server; later it is a separate package
/// with other options.
fn share(directory: &Path, socket: &Path, log: &Path) -> Result<Guarded> {
    if socket.exists() {
        std::fs::remove_file(socket)?;
    }
    let old = Path::new("/usr/lib/qemu/virtiofsd");
    let mut server = if old.exists() {
        let mut server = with_us(old);
        server.args(["-o", &format!("source={}", directory.display())]);
        server.args(["-o", "cache=always", "-o", "sandbox=chroot", "-o", "xattr"]);
        server
    } else {
        let mut server = with_us("/usr/libexec/virtiofsd");
        server.arg(format!("--shared-dir={}", directory.display()));
        server.args(["--cache=always", "--sandbox=chroot", "--xattr"]);
        server
    };
    let output = File::create(log)?;
    server.arg(format!("--socket-path={}", socket.display())).stdout(output.try_clone()?).stderr(output);
    let mut files = Guarded(server.spawn().context("virtiofsd cannot be started")?);
    let start = Instant::now();
    while !socket.exists() {
        if files.0.try_wait()?.is_some() || start.elapsed() > SERVER {
            bail!("virtiofsd does not work: {}", std::fs::read_to_string(log).unwrap_or_default().trim());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(files)
}

/// A program that is killed when we are. `setpriv` execs the program, so the process id stays the same.
fn with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = cmd::tool("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).current_dir(paths::root());
    command
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
