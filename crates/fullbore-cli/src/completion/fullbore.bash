# Completes the command line of fullbore in bash.

_fullbore() {
    # bash cuts words at '='; fullbore gets them whole.
    local words=() at glue=
    for ((at = 1; at <= COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} == = && ${#words[@]} -gt 0 ]]; then
            words[-1]+==
            glue=yes
        elif [[ $glue ]]; then
            words[-1]+=${COMP_WORDS[at]}
            glue=
        else
            words+=("${COMP_WORDS[at]}")
        fi
    done
    local typed=${words[-1]} line answer
    mapfile -t answer < <("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${words[@]}" 2> /dev/null)
    COMPREPLY=()
    case ${answer[0]-} in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
        commands) mapfile -t COMPREPLY < <(compgen -c -- "$typed") ;;
        *)
            for line in "${answer[@]}"; do
                line=${line%%$'\t'*}
                # Only what is behind '=' is replaced.
                [[ $typed == --*=* ]] && line=${line#*=}
                COMPREPLY+=("$line")
            done
            ;;
    esac
}

complete -F _fullbore fullbore
