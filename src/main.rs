use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: this process may have been started to be a cell's pid 1.
    jail::enter_if_asked();
    delegate::cli::harden();
    delegate::cli::main()
}
