//! Processes of the benchmark: each has a CPU, a cgroup and a network, and none outlives this program.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cgroup::Cgroup;
use super::network::Namespace;
use crate::e2e::processes;

/// Far longer than any of the programs takes to start or to stop.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Where a process runs; a missing part is inherited from this program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place<'a> {
    pub(super) cpu: Option<usize>,
    pub(super) cgroup: Option<&'a Cgroup>,
    pub(super) network: Option<&'a Namespace>,
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    pub(super) child: Child,
}

impl Process {
    pub(super) fn start(command: &mut Command, place: Place) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        place.apply(command);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a condition after the process has started.
    pub(super) fn until(&mut self, what: &str, mut is_so: impl FnMut(u32) -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_so(self.pid()) {
            stop_if_interrupted()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}) before {what}", self.name);
            }
            if start.elapsed() > LIMIT {
                bail!("{} took more than {} s until {what}", self.name, LIMIT.as_secs());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Fails if the process has ended, because the measurement would be worthless.
    pub(super) fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended ({status}) while it was measured", self.name),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let start = Instant::now();
        processes::terminate(self.pid());
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > LIMIT {
                drop(self.child.kill());
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Place<'_> {
    /// The command's output. Fails if the command does.
    pub(super) fn output(&self, command: &mut Command) -> Result<String> {
        self.apply(command);
        let name = command.get_program().to_string_lossy().into_owned();
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {name}"))?;
        stop_if_interrupted()?;
        let [out, error] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        if !output.status.success() {
            bail!("{name} failed ({}): {} {}", output.status, out.trim(), error.trim());
        }
        Ok(out)
    }

    /// Makes the command's process move to this place before it runs the program.
    fn apply(&self, command: &mut Command) {
        let cpus = self.cpu.map(only);
        let network = self.network.map(Namespace::descriptor);
        let cgroup: Vec<i32> = self.cgroup.map(|cgroup| cgroup.entries().collect()).unwrap_or_default();
        let enter = move || {
            // SAFETY: sets a number of this process, touches no memory.
            check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
            for entry in &cgroup {
                // SAFETY: the kernel reads one byte of a live value; the descriptor is open in the process
                // that forked.
                if unsafe { libc::write(*entry, c"0".as_ptr().cast(), 1) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(network) = network {
                // SAFETY: touches no memory.
                check(unsafe { libc::setns(network, libc::CLONE_NEWNET) })?;
            }
            if let Some(cpus) = &cpus {
                // SAFETY: the kernel reads a live value of the size that is told.
                check(unsafe { libc::sched_setaffinity(0, size_of_val(cpus), cpus) })?;
            }
            Ok(())
        };
        // SAFETY: only system calls, which are safe between fork and exec, and no allocation.
        unsafe { command.pre_exec(enter) };
    }
}

pub(super) fn stop_if_interrupted() -> Result<()> {
    if processes::interrupted() {
        bail!("interrupted");
    }
    Ok(())
}

/// Waits for the machine to settle; Ctrl-C ends the wait.
pub(super) fn settle(time: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        stop_if_interrupted()?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The CPUs that this program may use, in order.
pub(super) fn cpus() -> Result<Vec<usize>> {
    // SAFETY: a set is plain bits, for which zero bytes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to a live value of the size that is told.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    let highest = usize::try_from(libc::CPU_SETSIZE)?;
    // SAFETY: the macro reads inside the set for every number below its size.
    Ok((0..highest).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Whether a process accepts connections in its network.
pub(super) fn listens(pid: u32, port: u16) -> bool {
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    table.lines().skip(1).any(|line| is_listener(line, port))
}

/// A line of `/proc/net/tcp`: the local address is the second word, the state the fourth.
fn is_listener(line: &str, port: u16) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let local = words.next().and_then(|address| address.rsplit_once(':'));
    let here = local.is_some_and(|(_, number)| u16::from_str_radix(number, 16) == Ok(port));
    here && words.nth(1) == Some("0A")
}

fn only(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: a set is plain bits, for which zero bytes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the macro writes inside the set, whatever the number.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    set
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 77 1";
        assert!(is_listener(line, 8080));
        assert!(!is_listener(line, 8081));
        let line = "   1: 0100007F:1F90 0100007F:8C3A 01 00000000:00000000 00:00000000 00000000  0  0 78 1";
        assert!(!is_listener(line, 8080));
    }

    #[test]
    fn a_process_runs_on_its_cpu_and_ends_with_its_guard() {
        let cpu = *cpus().unwrap().last().unwrap();
        let place = Place { cpu: Some(cpu), ..Place::default() };
        let shown =
            place.output(Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"])).unwrap();
        assert_eq!(shown.trim().rsplit('\t').next(), Some(&*cpu.to_string()));
        let process = Process::start(Command::new("sleep").arg("600"), place).unwrap();
        let pid = process.pid();
        drop(process);
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    }
}
