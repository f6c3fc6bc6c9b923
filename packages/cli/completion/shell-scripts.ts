/** The words of the command line as scripts that bash, zsh and fish read. Pure. */
import type { CommandWords, Values } from './command-words.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export function writeCompletion(shell: Shell, all: readonly CommandWords[]): string {
  if (shell === 'fish') return writeFish(all);
  return shell === 'bash' ? writeBash(all) : writeZsh(all);
}

/** The first column of what is listed, without the header. */
const LIST_PROFILES = "holdfast profiles 2>/dev/null | awk 'NR > 1 { print $1 }'";

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** In both: `chain` is the command so far, and these tables say what may follow it, or the option before. */
function writeTables(all: readonly CommandWords[], indent: string): string {
  const paths = all.filter(({ path }) => path !== '').map(({ path }) => quote(path));
  const values = all.flatMap(({ path, options }) =>
    options.flatMap(({ long, short, values: from }) =>
      from === undefined
        ? []
        : [long, short].flatMap((flag) =>
            flag === undefined ? [] : [`${quote(`${path} ${flag}`)}) ${assign(from)} ;;`],
          ),
    ),
  );
  const follow = all.map(({ path, commands, options, argument }) => {
    const flags = options.flatMap(({ long, short }) => (short === undefined ? [long] : [long, short]));
    const names = commands.map(({ name }) => name);
    return `${quote(path)}) flags=${quote(flags.join(' '))} names=${quote(names.join(' '))} ${assign(argument)} ;;`;
  });
  return [
    `local at='' word chain='' flags='' names='' from='' choice=''`,
    `for word in "\${before[@]}"; do`,
    `  at="\${chain:+$chain }$word"`,
    `  case "$at" in`,
    `    ${paths.join(' | ')}) chain=$at ;;`,
    `  esac`,
    `done`,
    `case "$chain" in`,
    ...follow.map((line) => `  ${line}`),
    `esac`,
    `case "$chain $prev" in`,
    ...values.map((line) => `  ${line.replace(') ', ') flags= names= ')}`),
    `esac`,
    `if [[ $from == profiles ]]; then choice=$(${LIST_PROFILES}); fi`,
  ]
    .map((line) => `${indent}${line}`)
    .join('\n');
}

function assign(values: Values): string {
  return values.kind === 'words'
    ? `from=words choice=${quote(values.words.join(' '))}`
    : `from=${values.kind}`;
}

function writeBash(all: readonly CommandWords[]): string {
  return `# holdfast completion for bash. To use it:  source <(holdfast completion bash)
_holdfast() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD - 1}")
${writeTables(all, '  ')}
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -W "$names $choice" -- "$cur"))
  if [[ $from == files ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -F _holdfast holdfast
`;
}

function writeZsh(all: readonly CommandWords[]): string {
  return `#compdef holdfast
# holdfast completion for zsh. To use it:  source <(holdfast completion zsh)
_holdfast() {
  local cur=$words[CURRENT] prev=$words[CURRENT-1]
  local -a before=("\${(@)words[2,CURRENT-1]}")
${writeTables(all, '  ')}
  if [[ $cur == -* ]]; then
    compadd -- \${=flags}
    return
  fi
  compadd -- \${=names} \${=choice}
  if [[ $from == files ]]; then _files; fi
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;
}

function writeFish(all: readonly CommandWords[]): string {
  const paths = all.filter(({ path }) => path !== '').map(({ path }) => quote(path));
  const lines = all.flatMap(({ path, commands, options, argument }) => {
    const here = `complete -c holdfast -n ${quote(`__holdfast_at ${quote(path)}`)}`;
    return [
      `${here} ${fishValues(argument)}`,
      ...commands.map(({ name, description }) => `${here} -a ${name} -d ${quote(description)}`),
      ...options.map(({ long, short, description, values }) => {
        const flags = `-l ${long.slice(2)}${short === undefined ? '' : ` -s ${short.slice(1)}`}`;
        const taken = values === undefined ? '' : ` -r ${fishValues(values)}`;
        return `${here} ${flags} -d ${quote(description)}${taken}`;
      }),
    ];
  });
  return `# holdfast completion for fish. To use it:  holdfast completion fish | source
function __holdfast_at
    set -l path
    for word in (commandline -opc)[2..]
        set -l at (string trim -- "$path $word")
        if contains -- "$at" ${paths.join(' ')}
            set path $at
        end
    end
    test "$path" = "$argv[1]"
end
${lines.join('\n')}
`;
}

function fishValues(values: Values): string {
  switch (values.kind) {
    case 'files':
      return '-F';
    case 'words':
      return `-f -a ${quote(values.words.join(' '))}`;
    case 'profiles':
      return `-f -a ${quote(`(${LIST_PROFILES})`)}`;
    case 'anything':
      return '-f';
  }
}
