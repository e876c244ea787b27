//! The name of the CPU's model, which every architecture tells in another place.

use super::files::{Root, field};

/// What architectures call the model in `/proc/cpuinfo`: x86, MIPS, POWER, RISC-V.
const CPU_MODEL_KEYS: [&str; 4] = ["model name", "cpu model", "cpu", "uarch"];

/// Arm cores by implementer and part, which is all that `/proc/cpuinfo` says of them.
/// From the kernel's arch/arm64/include/asm/cputype.h.
const ARM_CORES: [(&str, &str, &str); 16] = [
    ("0x41", "0xd03", "Arm Cortex-A53"),
    ("0x41", "0xd05", "Arm Cortex-A55"),
    ("0x41", "0xd07", "Arm Cortex-A57"),
    ("0x41", "0xd08", "Arm Cortex-A72"),
    ("0x41", "0xd0b", "Arm Cortex-A76"),
    ("0x41", "0xd0c", "Arm Neoverse N1"),
    ("0x41", "0xd40", "Arm Neoverse V1"),
    ("0x41", "0xd41", "Arm Cortex-A78"),
    ("0x41", "0xd49", "Arm Neoverse N2"),
    ("0x41", "0xd4f", "Arm Neoverse V2"),
    ("0x41", "0xd84", "Arm Neoverse V3"),
    ("0x41", "0xd8e", "Arm Neoverse N3"),
    ("0x61", "0x022", "Apple M1 Icestorm"),
    ("0x61", "0x023", "Apple M1 Firestorm"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1A"),
];

/// Returns the model of `cpu`, or else that of the board.
pub fn cpu_model(root: &Root, cpu: usize) -> Option<String> {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let cpuinfo = cpuinfo_of(&cpuinfo, cpu);
    let named = CPU_MODEL_KEYS.iter().find_map(|key| field(cpuinfo, key));
    named
        .or_else(|| arm_core(cpuinfo))
        .map(|model| model.split_whitespace().collect::<Vec<_>>().join(" "))
        .or_else(|| root.text("proc/device-tree/model"))
        .or_else(|| {
            let implementer = field(cpuinfo, "CPU implementer")?;
            let part = field(cpuinfo, "CPU part")?;
            Some(format!("Arm implementer {implementer} part {part}"))
        })
}

/// Returns the lines that `/proc/cpuinfo` has for `cpu`, or else all of them: the cores of one
/// machine may differ (big.LITTLE), and some architectures describe all CPUs at once.
fn cpuinfo_of(cpuinfo: &str, cpu: usize) -> &str {
    let number = cpu.to_string();
    cpuinfo
        .split("\n\n")
        .find(|block| field(block, "processor") == Some(&number))
        .unwrap_or(cpuinfo)
}

/// Returns the name of the Arm core that these lines describe, where it is in [`ARM_CORES`].
fn arm_core(cpuinfo: &str) -> Option<&'static str> {
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    ARM_CORES
        .iter()
        .find(|core| (core.0, core.1) == (implementer, part))
        .map(|core| core.2)
}

#[cfg(test)]
mod tests {
    use crate::fixtures::Fixture;

    #[test]
    fn arm_cores_are_named_from_their_numbers_and_the_board_stands_in() {
        let numbers = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n";
        let known = Fixture::new(&[("proc/cpuinfo", numbers)]);
        assert_eq!(
            known.machine().cpu_model.as_deref(),
            Some("Arm Neoverse N1")
        );

        let numbers = "processor : 0\nCPU implementer : 0x42\nCPU part : 0x001\n";
        let unknown = Fixture::new(&[("proc/cpuinfo", numbers)]);
        let model = unknown.machine().cpu_model;
        assert_eq!(model.as_deref(), Some("Arm implementer 0x42 part 0x001"));
        unknown.file("proc/device-tree/model", "Some Board\0");
        assert_eq!(unknown.machine().cpu_model.as_deref(), Some("Some Board"));
    }
}
