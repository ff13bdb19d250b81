use std::process::ExitCode;

fn main() -> ExitCode {
    jail::enter_if_asked();
    delegate::cli::main()
}
