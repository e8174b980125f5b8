// Package model is the network of simnet, in virtual time: lines that pass bytes on at
// a rate, delay them and lose some. It promises nothing to outsiders.
//
// Connections over these lines are in simnet itself: they end with the life of a node,
// and tell its program.
package model
