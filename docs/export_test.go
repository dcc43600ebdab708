package docs

// Contains is for the tests of another package: wire imports this one.
var Contains = contains
