package api

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Problem is an error as it is sent: RFC 9457, with the name of the command's exit code.
type Problem struct {
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty" doc:"one sentence"`
	Code   string   `json:"code" doc:"stable; the name of an exit code, or no_entry, have, missing, denied, too_large, too_many"`
	Errors []string `json:"errors,omitempty" doc:"what is wrong with which field"`
	// Unshared tells whoever wants to share the rest what to leave out.
	Unshared []Unshared `json:"unshared,omitempty" doc:"files and folders in what was to be shared that cannot be; the first 100"`
	class    error
}

// Unshared is a file or folder that cannot be shared.
type Unshared struct {
	Path string `json:"path" doc:"in what was to be shared; . is all of it"`
	Why  string `json:"why"`
}

// Error returns the sentence.
func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title) }

// GetStatus returns the HTTP status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the content type of a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Unwrap returns the error that the code stands for, on both sides.
func (p *Problem) Unwrap() error {
	if p.class != nil {
		return p.class
	}
	if i := slices.IndexFunc(classes, func(c class) bool { return c.code == p.Code }); i >= 0 {
		return classes[i].err
	}
	return nil
}

var (
	// ErrNoEntry means that the catalog has no such entry, or the entry no such file.
	ErrNoEntry = errors.New("there is no such entry")
	// ErrHave means that the catalog already has what was to be added.
	ErrHave = errors.New("the node has that already")
	// ErrDenied means that the client is not allowed to do this.
	ErrDenied = errors.New("not allowed")
	// ErrRequest means that the request makes no sense.
	ErrRequest = errors.New("the request cannot be read")
)

// class is a kind of error: its code, and its HTTP status.
type class struct {
	err    error
	code   string
	status int
}

// classes has the names of the command's exit codes, in their order.
var classes = []class{
	{ErrDenied, "denied", http.StatusForbidden},
	{ErrNoEntry, "no_entry", http.StatusNotFound},
	{ErrRequest, "usage", http.StatusUnprocessableEntity},
	{share.ErrTicket, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNoSource, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNotListed, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrAddress, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNothingSelected, "usage", http.StatusUnprocessableEntity},
	{path.ErrBadPattern, "usage", http.StatusUnprocessableEntity},
	{share.ErrPath, "path", http.StatusUnprocessableEntity},
	{share.ErrExists, "exists", http.StatusConflict},
	{ErrHave, "have", http.StatusConflict},
	{share.ErrHeld, "held", http.StatusConflict},
	{share.ErrDiskFull, "disk_full", http.StatusInsufficientStorage},
	{share.ErrNetwork, "network", http.StatusBadGateway},
	{share.ErrNotFound, "not_found", http.StatusNotFound},
	{share.ErrNotAllowed, "not_allowed", http.StatusForbidden},
	{share.ErrLied, "lied", http.StatusBadGateway},
	{share.ErrStalled, "stalled", http.StatusGatewayTimeout},
	{fs.ErrNotExist, "missing", http.StatusNotFound},
	{fs.ErrPermission, "missing", http.StatusConflict},
}

// ProblemOf returns an error in the form in which it is sent.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	p := &Problem{Status: http.StatusInternalServerError, Code: "other", Detail: words.Plain(err), class: err}
	for _, c := range classes {
		if errors.Is(vfs.Full(err), c.err) {
			p.Status, p.Code = c.status, c.code
			break
		}
	}
	if p.Code == "disk_full" {
		p.Detail += "; make room and try again"
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// Refuse returns a problem of a class, with a sentence of its own.
func Refuse(class error, sentence string, args ...any) *Problem {
	p := ProblemOf(class)
	p.Detail = fmt.Sprintf(sentence, args...)
	return p
}

// codes maps the status of problems that the server itself finds to their codes.
var codes = map[int]string{
	http.StatusUnauthorized: "denied", http.StatusForbidden: "denied", http.StatusMisdirectedRequest: "denied",
	http.StatusNotFound: "no_entry", http.StatusRequestEntityTooLarge: "too_large", http.StatusServiceUnavailable: "too_many",
	http.StatusInternalServerError: "other",
}

// newProblem makes the problems that package huma finds.
func newProblem(status int, detail string, errs ...error) huma.StatusError {
	p := &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: cmp.Or(codes[status], "usage")}
	for _, err := range errs {
		if err == nil {
			continue
		}
		text := err.Error()
		if d, ok := errors.AsType[*huma.ErrorDetail](err); ok && d.Location != "" {
			text = fmt.Sprintf("%s: %s", d.Location, d.Message)
		}
		p.Errors = append(p.Errors, text)
	}
	if len(p.Errors) > 0 {
		p.Detail += ": " + p.Errors[0]
	}
	return p
}

func init() { huma.NewError = newProblem }
