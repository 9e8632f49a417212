" vim.vim - a real Vim with ALE and the block of docs/editors.md: types, and says what it sees.
" vim -Nu VIMRC -i NONE -S tests/lsp/vim.vim   CERIUM_FILE, CERIUM_OUT
function! Say(...) abort
  call writefile([join(a:000, "\t")], $CERIUM_OUT, 'a')
endfunction

function! Lines() abort
  return join(getline(1, '$'), "\n")
endfunction

function! Weak() abort
  return filter(ale#engine#GetLoclist(bufnr('')), 'v:val.linter_name ==# "cerium"')
endfunction

" What a user picks of the menu: TITLE is in the entry.
let g:menu = []
function! Menu(data, items) abort
  let g:menu = [a:data, a:items]
endfunction
function! Offers(title) abort
  if empty(g:menu) | return 0 | endif
  return !empty(filter(copy(g:menu[1]), {_, item -> item[1].title =~# a:title}))
endfunction
function! Take(title) abort
  let l:item = filter(copy(g:menu[1]), {_, item -> item[1].title =~# a:title})[0]
  call ale#codefix#ApplyLSPCodeAction(g:menu[0], l:item[1])
endfunction
function! Ask(line, column) abort
  let g:menu = []
  call cursor(a:line, a:column)
  call ale#codefix#Execute(0, function('Menu'))
endfunction

function! Type() abort
  call Say('started')
  call append('$', ['', 'def f(x):', "    e = '-'; h = hashlib.md5(x)", '    return h'])
  doautocmd <nomodeline> TextChanged
endfunction
function! See() abort
  let l:weak = Weak()[0]
  call Say('weak', l:weak.lnum == 4 && strpart(getline(4), l:weak.col - 1) =~# '^hashlib.md5', l:weak.text)
  call Ask(4, l:weak.col)
endfunction
function! Fix() abort
  let g:before = Lines()
  call Take('sha256')
endfunction
function! End() abort
  call Say('fixed', Lines() ==# substitute(g:before, 'md5', 'sha256', ''))
  call Say('end')
  qa!
endfunction

" Each is done when its turn has come.
let g:steps = [
\ [{-> v:true}, function('Type')],
\ [{-> !empty(Weak())}, function('See')],
\ [{-> Offers('sha256')}, function('Fix')],
\ [{-> Lines() !=# g:before}, function('End')],
\]
let g:waited = 0
function! Look(timer) abort
  let g:waited += 1
  try
    if g:waited > 1200
      throw 'stuck'
    elseif g:steps[0][0]()
      let g:waited = 0
      call remove(g:steps, 0)[1]()
    endif
  catch
    call Say('failed', len(g:steps), v:exception, v:throwpoint)
    qa!
  endtry
endfunction
execute 'edit' $CERIUM_FILE
call timer_start(50, 'Look', {'repeat': -1})
