# Completes the command line of fullbore in fish.

function __fullbore_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l typed (commandline --current-token --cut-at-cursor)
    set -l answer ($words[1] complete -- $words[2..] "$typed" 2> /dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path (string replace --regex '^--[^=]*=' '' -- "$typed")
        case directories
            __fish_complete_directories (string replace --regex '^--[^=]*=' '' -- "$typed") ''
        case commands
            __fish_complete_command
        case '*'
            string join \n -- $answer
    end
end

complete --command fullbore --no-files --arguments '(__fullbore_complete)'
