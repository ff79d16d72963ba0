//! A node with three pods that lose time in every way. Their names come from a fake API server, whose list
//! and watch the agent follows; their cgroups, network namespaces, file system and loads are real.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::support::cgroup::{Cgroup, Quota};
use super::support::network::{RIGHT, Wire};
use super::support::place::{Flag, Place, sleep_forever};
use super::support::process::{self as loads, Load, cpus};
use super::support::storage::{Kind, Storage};

pub(crate) const NAMESPACE: &str = "shop";
/// A server that exceeds its CPU limit, its client and database, and a neighbour that is always running.
pub(crate) const PODS: [&str; 3] = ["checkout", "db-0", "encode"];
const PORT: u16 = 5000;
/// The port of a server that listens and never accepts.
const DEAF: u16 = 5001;
/// A port without a server.
const CLOSED: u16 = 5002;
const MIB: u64 = 1 << 20;
/// Less than the file that the client reads over and over.
const LIMIT: u64 = 48 * MIB;
const FILE: u64 = 96 * MIB;

/// A fake API server that knows the pods of one node.
#[derive(Debug)]
pub(crate) struct ApiServer {
    directory: TempDir,
}

impl ApiServer {
    /// Runs until the test ends: its threads wait for connections forever.
    pub(crate) fn start(ids: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let list = list(ids);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let list = list.clone();
                // A client may leave at any time.
                thread::spawn(move || drop(answer(connection, &list)));
            }
        });
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).expect("written");
        Self { directory }
    }

    /// The agent's configuration.
    pub(crate) fn configuration(&self) -> String {
        let kubeconfig = self.directory.path().join("kubeconfig");
        format!(
            "[pods]\nsources = [\"kubernetes\"]\nnode = \"node-a\"\njitter_seconds = 0\nkubeconfig \
             = \"{}\"\n",
            kubeconfig.display()
        )
    }
}

fn list(ids: &[String]) -> String {
    let pod = |(number, (name, id)): (usize, (&&str, &String))| {
        json!({
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": format!("0-0-0-0-{number:012}")},
            "spec": {"nodeName": "node-a"},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "app", "containerID": format!("containerd://{id}")},
            ]},
        })
    };
    let items: Vec<_> = PODS.iter().zip(ids).enumerate().map(pod).collect();
    let metadata = json!({"resourceVersion": "1"});
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string()
}

/// Answers with the list, or with a watch that only ever sends bookmarks.
fn answer(mut connection: TcpStream, list: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    while let Some(request) = lines.next().transpose()? {
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        if request.contains("watch=true") {
            write!(connection, "{head}connection: close\r\n\r\n")?;
            loop {
                let metadata = json!({"resourceVersion": "1"});
                let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata});
                writeln!(connection, "{}", json!({"type": "BOOKMARK", "object": object}))?;
                thread::sleep(Duration::from_secs(1));
            }
        }
        write!(connection, "{head}content-length: {}\r\n\r\n{list}", list.len())?;
    }
    Ok(())
}

/// The pods and their loads, in drop order.
#[derive(Debug)]
pub(crate) struct Cluster {
    _loads: Vec<Load>,
    _cgroups: Vec<Cgroup>,
    _wire: Wire,
    _storage: Storage,
}

/// Container ids that no other test process uses.
pub(crate) fn ids() -> Vec<String> {
    (0..PODS.len()).map(|number| format!("{:060x}{number:04x}", process::id())).collect()
}

impl Cluster {
    pub(crate) fn start(ids: &[String]) -> Self {
        let storage = Storage::of(Kind::Ext4, 0);
        let wire = Wire::new("dashboards");
        wire.narrow();
        let cgroups: Vec<_> = ids.iter().map(|id| Cgroup::with_memory(id)).collect();
        let [server, client, neighbour] = &cgroups[..] else { unreachable!("three pods") };
        // On a machine with any load, the server uses up its quota, and its neighbours wait for it half of
        // the time.
        server.set_quota(Quota { quota_us: 50_000, period_us: 100_000 });
        server.set_weight_high();
        client.set_memory_limit(LIMIT);
        let at_server = Place { cgroup: server, namespace: &wire.right };
        let at_client = Place { cgroup: client, namespace: &wire.left };
        let file = big_file(&storage);
        let directory = storage.path().to_owned();
        let mut loads = vec![serve(&at_server), serve_nobody(&at_server)];
        // On one CPU, so that the pods compete with each other.
        let one = &cpus()[..1];
        loads.push(Load::running(server, one, || loads::in_threads(2, loads::spin)));
        loads.push(Load::running(neighbour, one, loads::sleep_often));
        for pod in [client, neighbour] {
            loads.push(Load::running(pod, one, loads::spin));
        }
        loads.push(at_client.run(ask));
        loads.push(at_client.run(connect_in_vain));
        loads.push(Load::running(client, &cpus(), || write_files(&directory)));
        loads.push(Load::running(client, &cpus(), || read_again_and_again(&file)));
        Self { _loads: loads, _cgroups: cgroups, _wire: wire, _storage: storage }
    }
}

fn big_file(storage: &Storage) -> PathBuf {
    let path = storage.path().join("file");
    fs::write(&path, vec![7; usize::try_from(FILE).expect("small")]).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("written back");
    path
}

// === Loads ===
// They run in forks of the test, which must not print or panic: failures are ignored here and show in the
// queries.

/// Reads data from each connection and sends a short answer; echoes datagrams.
fn serve(place: &Place) -> Load {
    let ready = Flag::new();
    let load = place.run(|| {
        let listener = TcpListener::bind((RIGHT[0], PORT)).expect("the address is ours");
        let datagrams = UdpSocket::bind((RIGHT[0], PORT)).expect("the address is ours");
        thread::spawn(move || {
            let mut request = [0; 100];
            while let Ok((size, from)) = datagrams.recv_from(&mut request) {
                drop(datagrams.send_to(&request[..size], from));
            }
        });
        ready.set();
        for mut connection in listener.incoming().flatten() {
            let mut block = [0; 10_000];
            while connection.read_exact(&mut block).is_ok() && connection.write_all(b"taken").is_ok() {}
        }
    });
    ready.wait();
    load
}

fn serve_nobody(place: &Place) -> Load {
    let ready = Flag::new();
    let load = place.run(|| {
        let listener = TcpListener::bind((RIGHT[0], DEAF)).expect("the address is ours");
        // The standard library sets a backlog of 128.
        // SAFETY: an open socket and a number.
        unsafe { libc::listen(listener.as_raw_fd(), 1) };
        ready.set();
        sleep_forever();
    });
    ready.wait();
    load
}

/// Sends more at once than the wire carries, on one connection after the other, and datagrams in between.
fn ask() {
    let datagrams = UdpSocket::bind("0.0.0.0:0").expect("a port");
    drop(datagrams.set_read_timeout(Some(Duration::from_millis(100))));
    loop {
        if let Ok(mut connection) = TcpStream::connect((RIGHT[0], PORT)) {
            for _ in 0..5 {
                let sent = connection.write_all(&[b'q'; 10_000]);
                if sent.and_then(|()| connection.read_exact(&mut [0; 5])).is_err() {
                    break;
                }
            }
        }
        drop(datagrams.send_to(&[b'q'; 100], (RIGHT[0], PORT)));
        drop(datagrams.recv(&mut [0; 100]));
    }
}

/// Connects to a port without a server, and to one whose server never accepts. The latter connections stay
/// open for a while, so that there is no room for the next ones.
fn connect_in_vain() {
    let deaf = std::net::SocketAddr::new(RIGHT[0].parse().expect("an address"), DEAF);
    loop {
        drop(TcpStream::connect((RIGHT[0], CLOSED)));
        let attempt = || TcpStream::connect_timeout(&deaf, Duration::from_millis(50));
        let open: Vec<_> = (0..8).map(|_| attempt()).collect();
        drop(open);
    }
}

fn write_files(directory: &Path) {
    let missing = directory.join("missing");
    for name in ["even", "odd"].iter().cycle() {
        let path = directory.join(name);
        if let Ok(mut file) = File::create(&path) {
            drop(file.write_all(&[1; 8192]).and_then(|()| file.sync_all()));
        }
        drop(fs::remove_file(&path));
        drop(File::open(&missing));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads the file from the device each time. Its pages are charged to the reader and soon exceed its limit.
fn read_again_and_again(path: &Path) {
    let mut block = vec![0; 64 << 10];
    loop {
        if let Ok(mut file) = File::open(path) {
            // SAFETY: an open file.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            while file.read(&mut block).is_ok_and(|size| size > 0) {}
        }
        thread::sleep(Duration::from_millis(100));
    }
}
