// Package wirepb is what protoc makes of the .proto files of package wire. Only
// wire's tests import it, to check the code written by hand; `make generate`
// makes it anew.
package wirepb
