fn main() {
    jail::enter_if_asked();
}
