package catalogue

import (
	"context"
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"path"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
)

type writeView struct {
	Path     string `json:"path"`
	Size     int    `json:"size"`
	MIMEType string `json:"mime_type"`
	Atomic   bool   `json:"atomic"`
}

func (c *catalogue) read(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	session, name, cwd := args.text("session"), args.text("path"), args.text("cwd")
	file, err := c.provider.Read(ctx, c.tenant, session, name, cwd)
	if err != nil {
		return nil, err
	}
	if file.Text {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(file.Data)}}}, nil
	}
	kind, _, err := mime.ParseMediaType(file.MIME)
	if err != nil {
		kind = "application/octet-stream"
	}
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp": // what models look at
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{Data: file.Data, MIMEType: kind}}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI:      fileURI(session, name, cwd),
		MIMEType: kind,
		Blob:     file.Data,
	}}}}, nil
}

// fileURI names a file of the sandbox. It is a label: nothing serves it.
func fileURI(session, name, cwd string) string {
	if !path.IsAbs(name) {
		name = path.Join("/", cwd, name)
	}
	return (&url.URL{Scheme: "sandbox", Host: session, Path: name}).String()
}

func (c *catalogue) write(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	data, err := c.payload(args)
	if err != nil {
		return nil, err
	}
	w, err := c.provider.Write(ctx, c.tenant, args.text("session"), args.text("path"), args.text("cwd"), data)
	if err != nil {
		return nil, err
	}
	how := "replaced in one step"
	if !w.Atomic {
		how = "written in place, not atomically"
	}
	return result(fmt.Sprintf("wrote %d bytes (%s) to %q, %s", w.Size, w.MIME, w.Path, how), writeView{w.Path, w.Size, w.MIME, w.Atomic}), nil
}

// payload is the content given as text or as base64.
func (c *catalogue) payload(args arguments) ([]byte, error) {
	words, isText := args.optionalText("text")
	encoded, isBase64 := args.optionalText("base64")
	if isText == isBase64 {
		return nil, fault.New(fault.Invalid, "give exactly one of text and base64").WithHint(`an empty file is text ""`)
	}
	if isText {
		return []byte(words), nil
	}
	// Before decoding: what is too large to be written need not be held twice. A sixteenth is for line breaks.
	if limit := c.provider.FileBytes(); base64.StdEncoding.DecodedLen(len(encoded)) > limit+limit/16+2 {
		return nil, fault.New(fault.TooLarge, "the content is over the limit of %d bytes", limit).
			WithHint("write it in parts and join them with exec: cat part1 part2 > file")
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fault.New(fault.Invalid, "base64 is not valid: %v", err).WithHint("use the standard alphabet with padding, without a data: prefix")
	}
	return data, nil
}
