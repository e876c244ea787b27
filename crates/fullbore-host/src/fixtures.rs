//! Machines for tests, described by files in a temporary directory. All functions panic where a file
//! cannot be written.

use std::fs;

use tempfile::TempDir;

use crate::machine::{CpuPair, Machine, Root, Topology, parse_cpu_list};

/// A machine that exists only as the files that describe it.
pub struct Fixture(TempDir);

impl Fixture {
    /// Makes a machine of these files: path and text of each.
    pub fn new(files: &[(&str, &str)]) -> Fixture {
        let fixture = Fixture(TempDir::new().unwrap());
        for (path, text) in files {
            fixture.file(path, text);
        }
        fixture
    }

    /// Returns four cores of two threads each (0,4 1,5 2,6 3,7) behind one L3 cache.
    pub fn smt() -> Fixture {
        let fixture = Fixture::new(&[]).online("0-7");
        for cpu in 0..8 {
            let core = cpu % 4;
            fixture.cpu(cpu, &format!("{core},{}", core + 4), "0-7");
        }
        fixture
    }

    /// Returns eight cores without threads, four behind each of two L3 caches.
    pub fn two_l3() -> Fixture {
        let fixture = Fixture::new(&[]).online("0-7");
        for cpu in 0..8 {
            let l3 = if cpu < 4 { "0-3" } else { "4-7" };
            fixture.cpu(cpu, &cpu.to_string(), l3);
        }
        fixture
    }

    /// Adds a file, or replaces it.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Adds a CPU of package 0 with an L1d of its own and an L3 of the CPUs in `l3`.
    pub fn cpu(&self, number: usize, siblings: &str, l3: &str) {
        self.placed(number, siblings, 0);
        let own = number.to_string();
        let l1d = ("1", "Data", "32K", own.as_str());
        self.caches(number, &[l1d, ("3", "Unified", "32768K", l3)]);
    }

    /// Says where a CPU is: its core's threads, and its package.
    pub fn placed(&self, number: usize, siblings: &str, package: u64) {
        let topology = format!("sys/devices/system/cpu/cpu{number}/topology");
        let package = package.to_string();
        self.file(&format!("{topology}/core_cpus_list"), siblings);
        self.file(&format!("{topology}/physical_package_id"), &package);
    }

    /// Gives a CPU caches: level, type, size, and the CPUs that share it.
    pub fn caches(&self, number: usize, caches: &[(&str, &str, &str, &str)]) {
        for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
            let cache = format!("sys/devices/system/cpu/cpu{number}/cache/index{index}");
            self.file(&format!("{cache}/level"), level);
            self.file(&format!("{cache}/type"), kind);
            self.file(&format!("{cache}/size"), size);
            self.file(&format!("{cache}/shared_cpu_list"), shared);
        }
    }

    /// Says which CPUs are online, such as `0-3`.
    pub fn online(self, list: &str) -> Fixture {
        self.file("sys/devices/system/cpu/online", list);
        self
    }

    /// Returns where its files are.
    pub fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    /// Returns its CPUs, of which a process may use those in the list `allowed`.
    pub fn topology(&self, allowed: &str) -> Topology {
        Topology::at(&self.root(), parse_cpu_list(allowed))
    }

    /// Returns all that the files say, with the best pair of CPUs.
    pub fn machine(&self) -> Machine {
        let topology = Topology::at(&self.root(), None);
        let cpus = CpuPair::choose(&topology);
        Machine::at(&self.root(), &topology, cpus)
    }
}
