# Boot sector of the guest: reads the program behind it from the disk to 0x10000, switches to 64-bit mode
# with the first GB of memory mapped to itself and all register states on, and calls the program.
    .code16
    .globl _start
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    movb %dl, drive
read_sector:
    movb $0x42, %ah
    movb drive, %dl
    movw $packet, %si
    int $0x13
    jc failed
    incl packet_sector
    addw $0x20, packet_segment
    decw sectors
    jnz read_sector
    cli                         # the BIOS may have allowed interrupts
    inb $0x92, %al              # address line 20
    orb $2, %al
    outb %al, $0x92
    movw $0x1000, %di           # page tables at 0x1000, 0x2000, 0x3000: 512 pages of 2 MB
    xorl %eax, %eax
    movw $(0x3000 / 4), %cx
    cld
    rep stosl
    movl $0x2003, 0x1000
    movl $0x3003, 0x2000
    movw $0x3000, %di
    movl $0x83, %eax
    movw $512, %cx
fill_page:
    movl %eax, (%di)
    addl $0x200000, %eax
    addw $8, %di
    decw %cx
    jnz fill_page
    lgdt table_register
    movl $0x40620, %eax         # PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
    movl %eax, %cr4
    movl $0x1000, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      # EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    andl $0xfffffff3, %eax      # no EM, no TS
    orl $0x80000003, %eax       # PG, MP, PE
    movl %eax, %cr0
    ljmp $8, $in_64_bits
failed:
    movb $'!', %al
    outb %al, $0xe9
    hlt
    .code64
in_64_bits:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $0x600e7, %eax         # XCR0: x87, SSE, AVX, AVX-512, tiles
    xorl %edx, %edx
    xorl %ecx, %ecx
    xsetbv
    movl $0x4000000, %esp       # 64 MB
    movl $0x10000, %eax
    call *%rax
    hlt
drive:
    .byte 0
    .balign 4
packet:                         # of the BIOS: one sector to segment:0
    .byte 16, 0
    .word 1
    .word 0
packet_segment:
    .word 0x1000
packet_sector:
    .quad 1
    .balign 8
table:
    .quad 0
    .quad 0x00af9a000000ffff    # code
    .quad 0x00cf92000000ffff    # data
table_register:
    .word 23
    .long table
    .org 508
sectors:                        # of the program; run.py writes it
    .word 0
    .word 0xaa55
