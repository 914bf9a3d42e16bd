package interop

import (
	"os/exec"
	"path/filepath"
	"testing"
)

var javaClients = []client{
	{name: "aws-sdk-java-v2", command: java("aws-sdk-java-v2", "testdata/java", "Matrix"), extra: "its batch manager, over Netty"},
}

// shortLived spares a machine the compilations that pay for what runs longer than a test.
const shortLived = "-XX:TieredStopAtLevel=1"

// java compiles the class in a folder, and prepares it for the jars that the script install makes
// of the pom.xml beside it.
func java(name, folder, class string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		jars := filepath.Join(installed(t, name, folder+"/pom.xml"), "lib", "*")
		classes := t.TempDir()
		compile := exec.CommandContext(t.Context(), "javac", "-J"+shortLived, "-proc:none", "-encoding", "UTF-8",
			"-cp", jars, "-d", classes, filepath.Join(folder, class+".java"))
		if out, err := compile.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", compile, err, out)
		}
		return exec.Command("java", shortLived, "-cp", classes+string(filepath.ListSeparator)+jars, class)
	}
}
