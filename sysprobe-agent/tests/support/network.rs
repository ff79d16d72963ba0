//! Two network namespaces of the test's own with a wire between them, and the kernel's counters in each.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::process::{self, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::memory::make_room;

/// The addresses of the two ends. All tests use the same ones, because each has its own namespaces.
pub(crate) const LEFT: [&str; 2] = ["10.77.0.1", "fd77::1"];
pub(crate) const RIGHT: [&str; 2] = ["10.77.0.2", "fd77::2"];

/// A network namespace; removed with its devices when it is dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    path: CString,
}

/// A device in the machine's own network with packet steering (RPS). It carries no packets; agents detect it
/// when they start.
#[derive(Debug)]
pub(crate) struct SteeredDevice(String);

/// A wire from `left` to `right`.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    _turn: Turn,
}

/// A test that floods connections takes the write lock. Its interrupts would make other tests miss program
/// runs, which are counted but unexpected there.
static STORM: RwLock<()> = RwLock::new(());

#[expect(dead_code, reason = "held until the test ends")]
#[derive(Debug)]
enum Turn {
    Together(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("sysprobe-test-{}-{name}", process::id());
        ip(&["netns", "add", &name]);
        let path = CString::new(format!("/run/netns/{name}")).expect("no NUL in a path");
        let namespace = Self { name, path };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    pub(crate) fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.name], arguments].concat());
    }

    pub(crate) fn tc(&self, arguments: &[&str]) -> bool {
        let output =
            Command::new("tc").args(["-n", &self.name]).args(arguments).output().expect("tc is there");
        output.status.success()
    }

    pub(crate) fn set(&self, sysctl: &str, value: &str) {
        let setting = format!("{sysctl}={value}");
        run(Command::new("ip").args(["netns", "exec", &self.name, "sysctl", "-qw", &setting]));
    }

    /// The number of packets in a device's queue, and the number that the queue has dropped.
    pub(crate) fn queue(&self, device: &str) -> (u64, u64) {
        let text =
            run(Command::new("tc").args(["-n", &self.name, "-j", "-s", "qdisc", "show", "dev", device]));
        let queues: serde_json::Value = serde_json::from_str(&text).expect("tc writes JSON");
        let number = |name: &str| queues[0][name].as_u64().expect("a number");
        (number("qlen"), number("drops"))
    }

    /// Makes one CPU process all packets that a device receives; `false` if the kernel cannot.
    pub(crate) fn steer(&self, device: &str, cpu: usize) -> bool {
        let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        let write = format!("echo {:x} > {file}", 1_u64 << cpu);
        let status = Command::new("ip").args(["netns", "exec", &self.name, "sh", "-c", &write]).status();
        status.is_ok_and(|status| status.success())
    }

    /// Turns a device's offloads on or off (`gro`, `tso`...); `false` without `ethtool`.
    pub(crate) fn offload(&self, device: &str, settings: &[&str]) -> bool {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "ethtool", "-K", device]).args(settings);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// The number of packets that a device has received.
    pub(crate) fn packets_in(&self, device: &str) -> u64 {
        let file = format!("/sys/class/net/{device}/statistics/rx_packets");
        let text = run(Command::new("ip").args(["netns", "exec", &self.name, "cat", &file]));
        text.trim().parse().expect("a number")
    }

    /// Whether a server listens on this port.
    pub(crate) fn listens(&self, port: u16) -> bool {
        let filter = format!("sport = :{port}");
        !run(Command::new("ip").args(["netns", "exec", &self.name, "ss", "-tlnH", &filter])).is_empty()
    }

    /// The number of IPv4 TCP sockets, without those that the kernel keeps in a reduced form (minisockets).
    pub(crate) fn sockets(&self) -> u64 {
        let text = run(Command::new("ip").args(["netns", "exec", &self.name, "cat", "/proc/net/sockstat"]));
        let line =
            text.lines().find_map(|line| line.strip_prefix("TCP: inuse ")).expect("the kernel has TCP");
        line.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Moves the calling thread into this namespace. For a load, which has a single thread.
    pub(crate) fn enter(&self) {
        // SAFETY: a path that lives, and plain values; the descriptor is closed again.
        unsafe {
            let file = libc::open(self.path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            if file < 0 || libc::setns(file, libc::CLONE_NEWNET) != 0 {
                libc::_exit(2);
            }
            libc::close(file);
        }
    }

    /// The kernel's counters here, such as `TcpRetransSegs`, `TcpExtListenDrops` or `Udp6InDatagrams`.
    pub(crate) fn counters(&self) -> Counters {
        Counters::read(|file| {
            let path = format!("/proc/net/{file}");
            run(Command::new("ip").args(["netns", "exec", &self.name, "cat", &path]))
        })
    }
}

impl SteeredDevice {
    /// Creates the device; `None` if the kernel does not steer packets (`CONFIG_RPS`).
    pub(crate) fn new() -> Option<Self> {
        // The kernel limits a name to 15 characters.
        let device = Self(format!("sp{}", process::id()));
        ip(&["link", "add", &device.0, "type", "veth", "peer", "name", &format!("{}p", device.0)]);
        fs::write(format!("/sys/class/net/{}/queues/rx-0/rps_cpus", device.0), "1").ok()?;
        Some(device)
    }
}

impl Drop for SteeredDevice {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["link", "del", &self.0]).status());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "del", &self.name]).status());
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counters(HashMap<String, i64>);

impl Counters {
    /// The counters of the namespace of a process.
    pub(crate) fn of_process(pid: i32) -> Self {
        Self::read(|file| fs::read_to_string(format!("/proc/{pid}/net/{file}")).expect("it runs"))
    }

    fn read(text_of: impl Fn(&str) -> String) -> Self {
        let mut counters = HashMap::new();
        for file in ["snmp", "netstat"] {
            let text = text_of(file);
            let mut lines = text.lines();
            while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
                let table = names.split(':').next().expect("a name").to_owned();
                for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
                    counters.insert(format!("{table}{name}"), value.parse().unwrap_or(0));
                }
            }
        }
        let text = text_of("snmp6");
        let pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
        counters
            .extend(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))));
        Self(counters)
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        let value = self.0.get(name).unwrap_or_else(|| panic!("the kernel does not count {name}"));
        u64::try_from(*value).expect("not below 0")
    }
}

impl Wire {
    pub(crate) fn new(name: &str) -> Self {
        Self::when(Turn::Together(STORM.read().unwrap_or_else(PoisonError::into_inner)), name)
    }

    /// Creates a wire while no other test has one.
    pub(crate) fn alone(name: &str) -> Self {
        Self::when(Turn::Alone(STORM.write().unwrap_or_else(PoisonError::into_inner)), name)
    }

    fn when(turn: Turn, name: &str) -> Self {
        make_room();
        let wire = Self {
            left: Namespace::new(&format!("{name}-left")),
            right: Namespace::new(&format!("{name}-right")),
            _turn: turn,
        };
        let Self { left, right, .. } = &wire;
        left.ip(&["link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", &right.name]);
        for (namespace, addresses) in [(left, LEFT), (right, RIGHT)] {
            let [v4, v6] = addresses;
            namespace.ip(&["address", "add", &format!("{v4}/24"), "dev", "wire"]);
            namespace.ip(&["address", "add", &format!("{v6}/64"), "dev", "wire", "nodad"]);
            namespace.ip(&["link", "set", "wire", "up"]);
        }
        wire
    }

    /// Removes the IPv4 addresses.
    pub(crate) fn drop_version_4(&self) {
        for namespace in [&self.left, &self.right] {
            namespace.ip(&["-4", "address", "flush", "dev", "wire"]);
        }
    }

    /// Adds a namespace behind the right one, which forwards to it; returns it with its address.
    pub(crate) fn extend(&self, name: &str) -> (Namespace, &'static str) {
        const FAR: &str = "10.78.0.2";
        let (far, right) = (Namespace::new(&format!("{name}-far")), &self.right);
        right.ip(&["link", "add", "further", "type", "veth", "peer", "name", "wire", "netns", &far.name]);
        right.ip(&["address", "add", "10.78.0.1/24", "dev", "further"]);
        far.ip(&["address", "add", &format!("{FAR}/24"), "dev", "wire"]);
        right.ip(&["link", "set", "further", "up"]);
        far.ip(&["link", "set", "wire", "up"]);
        right.set("net.ipv4.ip_forward", "1");
        self.left.ip(&["route", "add", "10.78.0.0/24", "via", RIGHT[0]]);
        far.ip(&["route", "add", "10.77.0.0/24", "via", "10.78.0.1"]);
        (far, FAR)
    }

    /// Adds a VLAN whose tags stay in the packets; returns the address on the right. `None` if the kernel has
    /// no VLANs, or there is no `ethtool`.
    pub(crate) fn tag(&self) -> Option<&'static str> {
        const ADDRESSES: [&str; 2] = ["10.79.0.1", "10.79.0.2"];
        for (namespace, address) in [&self.left, &self.right].into_iter().zip(ADDRESSES) {
            let mut add = Command::new("ip");
            add.args(["-n", &namespace.name, "link", "add", "link", "wire", "name", "tagged"]);
            let is_added = add.args(["type", "vlan", "id", "5"]).stderr(Stdio::null()).status();
            let is_added = is_added.is_ok_and(|status| status.success());
            if !is_added || !namespace.offload("wire", &["txvlan", "off", "rxvlan", "off"]) {
                return None;
            }
            namespace.ip(&["address", "add", &format!("{address}/24"), "dev", "tagged"]);
            namespace.ip(&["link", "set", "tagged", "up"]);
        }
        Some(ADDRESSES[1])
    }

    /// The output of `ss` for the connections on the left, one line each.
    pub(crate) fn ss(&self) -> String {
        run(Command::new("ip").args(["netns", "exec", &self.left.name, "ss", "-tinHO"]))
    }

    /// Sends traffic from left to right through a narrow pipe with a short queue, so that some packets are
    /// lost.
    pub(crate) fn narrow(&self) {
        let shape = ["root", "tbf", "rate", "20mbit", "burst", "5k", "latency", "2ms"];
        assert!(self.left.tc(&[&["qdisc", "replace", "dev", "wire"], &shape[..]].concat()), "tbf is there");
    }

    /// How long the peer's window has limited the connection on the left, according to `ss`.
    pub(crate) fn limited(&self) -> Option<Duration> {
        let line = self.ss();
        let (milliseconds, _) = line.split(" rwnd_limited:").nth(1)?.split_once("ms")?;
        Some(Duration::from_millis(milliseconds.parse().expect("milliseconds")))
    }

    /// Makes some packets from left to right overtake others; `false` if the kernel cannot.
    pub(crate) fn reorder(&self) -> bool {
        let netem = ["netem", "delay", "5ms", "reorder", "10%", "limit", "100000"];
        self.left.tc(&[&["qdisc", "replace", "dev", "wire", "root"], &netem[..]].concat())
    }

    /// Delays all packets from right to left by this time; `false` if the kernel cannot.
    pub(crate) fn delay(&self, milliseconds: u32) -> bool {
        let delay = format!("{milliseconds}ms");
        self.right
            .tc(&["qdisc", "replace", "dev", "wire", "root", "netem", "delay", &delay, "limit", "100000"])
    }
}

fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
