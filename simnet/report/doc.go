// Package report draws a run of a scenario: one page of HTML that needs nothing
// else, neither a network nor a script. What is drawn is a [simnet.Recording].
//
// All charts share one axis of time. A page is meant to be read from the top: did
// it hold, how long did it take, which node was slow, and why.
package report
