//! The name of the CPU's model, which every architecture tells in another place.

use super::files::{Root, field};

/// What architectures call the model in `/proc/cpuinfo`: x86, MIPS, POWER, RISC-V.
const CPU_MODEL_KEYS: [&str; 4] = ["model name", "cpu model", "cpu", "uarch"];

/// Returns the model of `cpu`, or else that of the board.
pub fn cpu_model(root: &Root, cpu: usize) -> Option<String> {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let cpuinfo = cpuinfo_of(&cpuinfo, cpu);
    let named = CPU_MODEL_KEYS.iter().find_map(|key| field(cpuinfo, key));
    let named = named.map(|model| model.split_whitespace().collect::<Vec<_>>().join(" "));
    named
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
    let mut blocks = cpuinfo.split("\n\n");
    let own = blocks.find(|block| field(block, "processor") == Some(&number));
    own.unwrap_or(cpuinfo)
}

#[cfg(test)]
mod tests {
    use crate::fixtures::Fixture;

    #[test]
    fn arm_cores_are_called_by_their_numbers_and_the_board_stands_in() {
        let numbers = "processor : 0\nCPU implementer : 0x42\nCPU part : 0x001\n";
        let unknown = Fixture::new(&[("proc/cpuinfo", numbers)]);
        let model = unknown.machine().cpu_model;
        assert_eq!(model.as_deref(), Some("Arm implementer 0x42 part 0x001"));
        unknown.file("proc/device-tree/model", "Some Board\0");
        assert_eq!(unknown.machine().cpu_model.as_deref(), Some("Some Board"));
    }
}
