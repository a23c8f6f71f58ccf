"""List the files that other programs execute or obey; a change of one needs explicit consent before it is accepted.

A file belongs here when opening its folder in an editor, changing into it, or running a usual command there (build,
test, format, commit) executes it, or lets it name what is executed. ``find`` looks a path up.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

_SCRIPTS = ("js", "cjs", "mjs", "ts", "cts", "mts")

FLAGGED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "runs as a git hook",
        (".husky/", ".githooks/", ".git-hooks/", ".hooks/", ".cargo-husky/", ".overcommit/", ".huskyrc*"),
    ),
    (
        "configures git hooks",
        (
            *("lefthook.*", "lefthook-local.*", ".lefthook*", ".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml"),
            *("prek.toml", ".overcommit.yml", "captainhook.json", "grumphp.y*ml", ".simple-git-hooks.*"),
            *("simple-git-hooks.*", ".lintstagedrc*", ".rusty-hook.toml", ".gitlint"),
        ),
    ),
    (
        "changes what version control does",
        (
            *(".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig", "*.git/", "head", ".hg/", ".jj/", ".sl/"),
            *(".svn/", ".bzr/", ".arcconfig", ".arclint", ".reviewboardrc"),
        ),
    ),
    (
        "runs in continuous integration",
        (
            *("/.github/", "/.gitlab/", "/.circleci/", "/.buildkite/", "/.woodpecker/", "/.forgejo/", "/.gitea/"),
            *("/.ci/", "/.teamcity/", "/.semaphore/", "/.builds/", "/.tekton/", "/.azuredevops/", "/.drone/"),
            *("/.azure-pipelines/", "/.harness/", "/.jenkins/", "/.codefresh/", "/.buddy/", "/zuul.d/", "/.zuul.d/"),
            *(".gitlab-ci.y*ml", "*.gitlab-ci.y*ml", ".travis.yml", "appveyor.yml", ".appveyor.yml"),
            *(
                "azure-pipelines*.y*ml",
                "jenkinsfile",
                "jenkinsfile.*",
                "bitbucket-pipelines.yml",
                ".drone.*",
                ".woodpecker.y*ml",
            ),
            *(".cirrus.*", ".build.yml", "wercker.yml", "codemagic.yaml", "buildspec*.y*ml", "cloudbuild*.y*ml"),
            *("codefresh.yml", "bitrise.yml", "buddy.yml", "screwdriver.yaml", ".scrutinizer.yml", "shippable.yml"),
            *("earthfile", "dagger.json", ".packit.y*ml", "zuul.yaml", ".zuul.yaml", "action.y*ml"),
        ),
    ),
    (
        "runs in a release or a deployment",
        (
            *(".readthedocs.y*ml", "netlify.toml", "vercel.json", "now.json", "render.yaml", "fly.toml", "heroku.yml"),
            *("wrangler.toml", "wrangler.json*", "serverless.y*ml", "skaffold.y*ml", "samconfig.toml", "cdk.json"),
            *("pulumi*.yaml", "helmfile*.y*ml", "renovate.json*", ".renovaterc*", ".goreleaser*.y*ml", ".releaserc*"),
            *(".release-it.*", ".versionrc*", ".bumpversion*", "terragrunt.hcl", ".terraformrc", ".terraform/"),
            *("ansible.cfg", "tiltfile", "okteto.y*ml", "devspace.yaml", "garden.y*ml"),
        ),
    ),
    (
        "is read by an editor",
        (
            *(
                ".vscode/",
                ".idea/",
                ".devcontainer/",
                ".zed/",
                ".fleet/",
                ".helix/",
                ".vim/",
                ".nvim/",
                ".vs/",
                ".nova/",
            ),
            *(
                ".theia/",
                ".lapce/",
                ".bsp/",
                ".metals/",
                ".bloop/",
                ".settings/",
                ".externaltoolbuilders/",
                "nbproject/",
            ),
            *(".run/", ".spyproject/", "*.code-workspace", ".devcontainer.json", "devcontainer.json", "devfile.yaml"),
            *(
                ".gitpod.*",
                ".replit",
                ".stackblitzrc",
                ".codesandbox/",
                ".idx/",
                ".vimrc",
                "_vimrc",
                ".gvimrc",
                ".nvimrc",
            ),
            *(".lvimrc", ".exrc", "_exrc", ".nvim.lua", ".vimspector.json", ".projections.json", ".dir-locals.el"),
            *(
                ".dir-locals-2.el",
                ".emacs",
                ".emacs.d/",
                ".projectile",
                ".kateproject*",
                ".kakrc*",
                ".lite_project.lua",
            ),
            *("*.sublime-project", "*.sublime-workspace", "*.iml", "*.ipr", "*.launch", ".project", ".classpath"),
            *(".pydevproject", ".ycm_extra_conf.py", ".clangd", ".ccls", ".tern-project", ".luarc.json*", "hie.yaml"),
            *("rust-analyzer.toml", ".rust-analyzer.toml", "rust-project.json", "pyrightconfig.json", ".ocamlinit"),
            *(".solargraph.yml", "analysis_options.yaml", ".trunk/"),
        ),
    ),
    (
        "instructs or configures agents",
        (
            *(".claude/", ".claude-plugin/", ".codex/", ".gemini/", ".opencode/", ".cursor/", ".aider*/", ".windsurf/"),
            *(".continue/", ".qwen/", ".understudy/", ".copilot/", ".roo/", ".kilocode/", ".cline/", ".clinerules/"),
            *(".kiro/", ".junie/", ".goose/", ".amp/", ".trae/", ".augment/", ".agent/", ".agents/", ".crush/", ".pi/"),
            *(".amazonq/", ".openhands/", ".devin/", ".cody/", ".sourcegraph/", ".tabnine/", ".zencoder/", ".rovodev/"),
            *(".factory/", ".warp/", ".void/", ".lingma/", ".codebuddy/", ".iflow/", ".grok/", ".kimi/", ".vibe/"),
            *(".jules/", ".forge/", ".serena/", ".taskmaster/", ".ruler/", "mcp.json", ".mcp.json", "*.mcp.json"),
            *("claude.md", "claude.local.md", "agent.md", "agents.md", "agent.override.md", "agents.override.md"),
            *("gemini.md", "qwen.md", "warp.md", "crush.md", "iflow.md", "goose.md", "skill.md", "*.instructions.md"),
            *("copilot-instructions.md", "opencode.json*", ".opencode.json*", "crush.json", ".crush.json", ".rules"),
            *(".cursorrules", ".windsurfrules", ".roorules*", ".roomodes", ".kilocodemodes", ".continuerules"),
            *(".goosehints", ".augment-guidelines", ".aider*.yml", "gemini-extension.json", ".coderabbit.y*ml"),
            # What this lists is copied to agents, even if git ignores it.
            ".worktreeinclude",
        ),
    ),
    (
        "configures tools",
        (
            *(
                ".npmrc",
                ".yarnrc*",
                ".pnpmfile.*",
                "pnpmfile.*",
                "bunfig.toml",
                ".pypirc",
                "pip.conf",
                "pip.ini",
                "uv.toml",
            ),
            *(
                "pdm.toml",
                ".pdm.toml",
                ".pdm-python",
                ".pdm-plugins/",
                "poetry.toml",
                "hatch.toml",
                ".cargo/",
                ".bundle/",
            ),
            *(".yarn/", ".mvn/", ".gradle/", ".m2/", "nuget.config", ".bazelrc", "*.bazelrc", ".bazeliskrc"),
            *(".bazelversion", ".buckconfig*", ".plzconfig*", ".pants.rc", "gradle.properties", ".sbtopts", ".jvmopts"),
            *(
                ".mill-*",
                "rust-toolchain",
                "rust-toolchain.toml",
                "global.json",
                ".netrc",
                "_netrc",
                ".curlrc",
                "_curlrc",
            ),
            *(
                ".wgetrc",
                ".docker/",
                ".aws/",
                ".kube/",
                "kubeconfig",
                ".ssh/",
                ".gnupg/",
                ".my.cnf",
                ".psqlrc",
                ".sqliterc",
            ),
            *(
                ".mongorc.js",
                ".inputrc",
                ".screenrc",
                ".tmux.conf",
                ".tmuxinator.yml",
                ".tmuxp.*",
                ".zellij/",
                ".luarocks/",
            ),
            *(".julia/", ".jupyter/", ".ipython/", ".htaccess", ".user.ini", "php.ini"),
        ),
    ),
    (
        "sets programs or variables when this folder is entered",
        (
            *(
                ".envrc",
                ".direnv/",
                ".direnvrc",
                ".env",
                ".env.local",
                ".env.test*",
                ".env.dev*",
                ".env.prod*",
                ".flaskenv",
            ),
            *(
                ".mise/",
                ".mise*.toml",
                "mise.toml",
                "mise.*.toml",
                ".config/mise*",
                ".config/mise/",
                "mise-tasks/",
                ".mise-tasks/",
            ),
            *(
                ".rtx*.toml",
                ".tool-versions",
                ".asdfrc",
                ".prototools",
                ".vfox.toml",
                "aqua.y*ml",
                ".aqua/",
                ".sdkmanrc",
            ),
            *("hermit.hcl", ".python-version", ".node-version", ".nvmrc", ".ruby-version", ".java-version"),
            *(".go-version", ".rbenv-vars", ".powrc", ".powenv", ".pumaenv", ".autoenv*", "*.nix", "flake.lock"),
            *("devenv.yaml", "devenv.lock", "devbox.json", ".flox/", "guix.scm", "manifest.scm", "channels.scm"),
            *(".guix-channel", "environment.y*ml", "pixi.toml", "spack.yaml"),
        ),
    ),
    (
        "runs when a shell, a debugger or an interpreter starts",
        (
            *(
                ".bashrc",
                ".bash_profile",
                ".bash_login",
                ".bash_logout",
                ".bash_aliases",
                ".profile",
                ".zshrc",
                ".zshenv",
            ),
            *(
                ".zprofile",
                ".zlogin",
                ".zlogout",
                ".kshrc",
                ".mkshrc",
                ".cshrc",
                ".tcshrc",
                ".login",
                ".logout",
                ".shrc",
            ),
            *(".xonshrc", "config.fish", ".xinitrc", ".xsession", ".xprofile", ".pam_environment"),
            *(".gdbinit", ".gdbearlyinit", "*-gdb.py", "*-gdb.gdb", "*-gdb.scm", ".lldbinit*", ".radare2rc", ".pdbrc*"),
            *(".pythonrc*", "sitecustomize.py", "usercustomize.py", "*.pth", "ipython_config.py", "jupyter*_config.py"),
            *("jupyter*_config.json", ".rprofile", "rprofile.site", ".renviron", "*.rproj", "renv/activate.r"),
            *(
                "startup.jl",
                "startup.m",
                "finish.m",
                ".octaverc",
                ".gnuplot",
                ".irbrc",
                ".pryrc",
                ".rdbgrc",
                ".byebugrc",
            ),
            *(".iex.exs", ".ghci", ".utoprc", ".sbclrc", ".guile", "user.clj", ".perldb", ".latexmkrc", "latexmkrc"),
            *("texmf.cnf", "autorun.inf", "desktop.ini", "*.desktop", "*.lnk"),
        ),
    ),
    (
        "can run commands in builds or tests",
        (
            # many languages
            *(
                "makefile",
                "makefile.am",
                "makefile.in",
                "makefile.inc",
                "makefile.toml",
                "makefile.win",
                "gnumakefile",
                "*.mk",
                "*.mak",
                "*.ninja",
                "justfile",
                ".justfile",
                "*.just",
                "taskfile*.y*ml",
            ),
            *(
                ".taskrc.y*ml",
                "maskfile.md",
                "lets.yaml",
                "tusk.y*ml",
                "mprocs.yaml",
                "process-compose*.y*ml",
                "bake.toml",
            ),
            *(
                "workspace",
                "workspace.bazel",
                "workspace.bzlmod",
                "module.bazel*",
                "build",
                "build.bazel",
                "*.bzl",
                "*.bazelproject",
            ),
            *("tools/bazel", "buck", "targets", "build.pants", "pants.toml", "/pants", "/pleasew", "/waf", "wscript"),
            *("sconstruct", "sconscript", "snakefile", "*.smk", "nextflow.config", "dvc.yaml", ".dvc/", "mlproject"),
            *(
                "dockerfile",
                "dockerfile.*",
                "*.dockerfile",
                "containerfile",
                "containerfile.*",
                "docker-compose*.y*ml",
                "compose*.y*ml",
                "docker-bake.*",
            ),
            *(
                "procfile",
                "procfile.*",
                "vagrantfile",
                "bacon.toml",
                ".bacon.toml",
                ".air.toml",
                "moon.yml",
                ".moon/",
                "sqlc.y*ml",
            ),
            *(
                "buf.gen*.y*ml",
                "asv.conf.json",
                "book.toml",
                "_quarto.yml",
                "mkdocs.y*ml",
                "hugo.toml",
                "hugo.y*ml",
                "hugo.json",
                "_config.yml",
            ),
            *("_plugins/", "docs/conf.py", "doc/conf.py", "source/conf.py"),
            # JavaScript
            *("package.json", "package.json5", "package.yaml", "pnpm-workspace.yaml", ".pnp.*", "deno.json*"),
            *(
                "binding.gyp",
                "*.gypi",
                "lerna.json",
                "nx.json",
                "project.json",
                "turbo.json",
                "rush.json",
                "angular.json",
            ),
            *(".angular-cli.json", ".ember-cli*", "ember-cli-build.*", ".storybook/", "nodemon.json", ".nodemonrc*"),
            *(
                "gulpfile.*",
                "gulpfile.*/",
                "gruntfile.*",
                "jakefile",
                "jakefile.*",
                "cakefile",
                "brocfile.*",
                "brunch-config.*",
                "wallaby.[cm]js",
                "wallaby.[jt]s",
            ),
            *(f"*.{word}.{script}" for word in ("config", "conf") for script in _SCRIPTS),
            *(f".*rc.{script}" for script in _SCRIPTS),
            *("*.setup.[cm][jt]s", "*.setup.[jt]s", "vitest.workspace.*", "testem.json", "cypress.json", ".mocharc*"),
            *("mocha.opts", ".taprc*", ".nycrc*", ".c8rc*", ".babelrc*", ".swcrc", ".postcssrc*", ".eslintrc*"),
            *(".stylelintrc*", ".prettierrc*", ".remarkrc*", ".textlintrc*", ".markdownlint-cli2.*", "rescript.json"),
            # Python
            *(
                "setup.py",
                "setup.cfg",
                "pyproject.toml",
                "pipfile",
                "*requirements*.txt",
                "constraints*.txt",
                "conftest.py",
            ),
            *(
                "pytest.ini",
                ".pytest.ini",
                "pytest.toml",
                ".pytest.toml",
                "noxfile.py",
                "tox.ini",
                "tox.toml",
                ".coveragerc*",
            ),
            *(
                "nose2.cfg",
                "unittest.cfg",
                "behave.ini",
                ".behaverc",
                "mypy.ini",
                ".mypy.ini",
                ".pylintrc*",
                "pylintrc*",
            ),
            *(".flake8", "hatch_build.py", "invoke.y*ml", "invoke.json", "/tasks.py", "/fabfile.py", "/fabfile/"),
            *("/dodo.py", "/pavement.py"),
            # JVM
            *(
                "pom.xml",
                "mvnw",
                "mvnw.cmd",
                "build.xml",
                "ivy.xml",
                "*.gradle",
                "*.gradle.kts",
                "gradlew",
                "gradlew.bat",
                "gradle/wrapper/",
            ),
            *(
                "buildsrc/",
                "*.sbt",
                "project/build.properties",
                "project/*.scala",
                "build.sc",
                "build.mill*",
                "/mill",
                "/mill.bat",
            ),
            *("project.scala", "project.clj", "profiles.clj", "deps.edn", "bb.edn", "shadow-cljs.edn", "build.boot"),
            # C, C++ and other compiled languages
            *("cmakelists.txt", "*.cmake", "cmakepresets.json", "cmakeuserpresets.json", "meson.build", "configure"),
            *(
                "configure.ac",
                "configure.in",
                "autogen.sh",
                "xmake.lua",
                "premake*.lua",
                "jamfile",
                "jamfile.*",
                "jamroot",
                "jamroot.*",
            ),
            *(
                "conanfile.*",
                "*.pro",
                "*.pri",
                "*.qbs",
                "tupfile",
                "build.rs",
                "cargo.toml",
                "build.zig*",
                "package.swift",
            ),
            *("*.podspec", "podfile", "cartfile*", "fastfile", "fastlane/", "tuist/", "project.swift", "*.xcodeproj/"),
            *(
                "*.xcworkspace/",
                "*.xcconfig",
                "*.*proj",
                "*.props",
                "*.targets",
                "*.cake",
                "psakefile.ps1",
                "build.fsx",
            ),
            *("dub.json", "dub.sdl", "*.nimble", "*.nims", "nim.cfg", "*.rockspec", "magefile.go", "magefiles/"),
            *(".golangci.*", "dune", "dune-project", "dune-workspace", "*.opam", "*.cabal", "cabal.project*"),
            *("stack.yaml", "setup.hs", "setup.lhs", "shard.yml", "rebar.config*", "mix.exs", ".formatter.exs"),
            *(".credo.exs", "melos.yaml", "build.yaml"),
            # Ruby, PHP, Perl, R, Julia
            *(
                "gemfile",
                "gems.rb",
                "*.gemspec",
                "rakefile",
                "rakefile.rb",
                "*.rake",
                "config.ru",
                "guardfile",
                "capfile",
                "brewfile",
            ),
            *("dangerfile", "thorfile", "*.thor", "berksfile", "appraisals", ".rspec*", ".simplecov", ".rubocop*.yml"),
            *(
                "composer.json",
                "artisan",
                "phpunit.xml*",
                "phpstan.neon*",
                "psalm.xml*",
                ".php-cs-fixer*",
                "rector.php",
            ),
            *("makefile.pl", "build.pl", "cpanfile", ".proverc", "dist.ini", "deps/build.jl"),
        ),
    ),
    (
        # Editors run the interpreter and other programs from there without asking; so does our own extension.
        "is run in place of an installed program",
        (".venv/", "venv/", "node_modules/", "*/bin/activate*", "*/bin/python*", "pyvenv.cfg"),
    ),
)
"""Reason → patterns; the first reason that fits is shown.

A pattern without a slash is a file name at any depth, one that ends with a slash a folder and everything in it (also a
link in its place). A leading slash is the top of the repository; other slashes separate consecutive names. ``*`` and
``[]`` match within a name. Upper and lower case are the same, because some file systems ignore case.
"""


def find(path: str) -> str | None:
    """Return why a change of ``path`` needs consent, or None; ``path`` is relative to the repository, with slashes."""
    text = path.casefold()
    names = text.split("/")
    ranks = [_rank_of_folder(name) for name in names] + [_rank(_compiled().files, names[-1])]
    ranks.append(_rank(_compiled().paths, text))
    best = min(ranks)
    return FLAGGED[best][0] if best < len(FLAGGED) else None


class _Expressions(NamedTuple):
    """One kind of patterns: fast enough for tens of thousands of files, of which few are flagged."""

    any: re.Pattern[str]
    by_rank: list[tuple[int, re.Pattern[str]]]


class _Compiled(NamedTuple):
    """The table as expressions, each for the reason at its rank."""

    files: _Expressions
    """For the last name of a path."""
    folders: _Expressions
    """For each name of a path."""
    paths: _Expressions
    """For whole paths."""


@functools.cache
def _compiled() -> _Compiled:
    found: tuple[list[tuple[int, str]], ...] = ([], [], [])
    for rank, (_, patterns) in enumerate(FLAGGED):
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for pattern in patterns:
            names = pattern.rstrip("/")
            body = "".join(map(_regular, re.split(r"(\*|\[[^]]*\])", names.lstrip("/"))))
            if "/" in names:
                start = "" if pattern.startswith("/") else "(?:.*/)?"
                groups[2].append(f"{start}{body}{'(?:/.*)?' if pattern.endswith('/') else ''}")
            else:
                groups[1 if pattern.endswith("/") else 0].append(body)
        for kind, group in zip(found, groups, strict=True):
            if group:
                kind.append((rank, "|".join(group)))
    return _Compiled(*map(_expressions, found))


def _expressions(bodies: list[tuple[int, str]]) -> _Expressions:
    return _Expressions(
        re.compile("|".join(body for _, body in bodies), re.DOTALL),
        [(rank, re.compile(body, re.DOTALL)) for rank, body in bodies],
    )


def _regular(part: str) -> str:
    return "[^/]*" if part == "*" else part if part.startswith("[") else re.escape(part)


def _rank(expressions: _Expressions, text: str) -> int:
    """Return the rank of the first expression that matches ``text``, one after the last when none does."""
    if not expressions.any.fullmatch(text):
        return len(FLAGGED)
    return next(rank for rank, expression in expressions.by_rank if expression.fullmatch(text))


@functools.lru_cache(maxsize=4096)
def _rank_of_folder(name: str) -> int:
    return _rank(_compiled().folders, name)
