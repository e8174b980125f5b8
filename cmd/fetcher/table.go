package main

import (
	"slices"
	"strings"
)

// tabular aligns rows of cells for stdout; the first row is the head. On a terminal, the last cell of a row that is
// too wide stands on a line of its own below it, and is cut only if it is wider than the terminal.
func (a *app) tabular(rows [][]string) string {
	return tabular(rows, newTerminal(a.stdout).columns())
}

// tabular makes lines of at most n columns; 0 is no bound.
func tabular(rows [][]string, n int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		last, line := row[len(row)-1], ""
		for i, cell := range row[:len(row)-1] {
			line += cell + strings.Repeat(" ", widths[i]-columnsOf(cell)+len(between))
		}
		if n > 0 && columnsOf(line)+columnsOf(last) > n {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, last = between, clip(last, n-len(between))
		}
		b.WriteString(strings.TrimRight(line+last, " ") + "\n")
	}
	return b.String()
}

// between separates the columns of a table.
const between = "  "

// headed is a table of all rows below a head; "" if there are none.
func (a *app) headed(rows [][]string, head ...string) string {
	if len(rows) == 0 {
		return ""
	}
	return a.tabular(slices.Insert(rows, 0, head))
}
